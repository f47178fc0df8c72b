package runner

import (
	_ "embed" // for the schema
)

//go:embed runner.schema.json
var schema string

// Schema returns the JSON Schema (2020-12) of a [Result] and of an [Event]:
// $defs/result and $defs/event. Fields may be added to both.
func Schema() []byte { return []byte(schema) }
