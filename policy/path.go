package policy

// Path is a path on this machine: any bytes but NUL.
//
// In JSON a path that is valid UTF-8 is a string. Another one is an object
// {"base64": "…", "display": "…"}, of which only base64 counts.
type Path string
