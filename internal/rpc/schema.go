package rpc

import (
	"bytes"
	_ "embed" // of the schema
)

//go:embed rpc.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of all that is written and read.
func Schema() []byte { return bytes.Clone(schema) }
