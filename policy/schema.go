package policy

import (
	_ "embed" // for the schema
)

//go:embed policy.schema.json
var schema string

// Schema returns the JSON Schema (2020-12) of a policy. What it accepts
// [Decode] accepts and [Policy.Validate] finds nothing wrong with, except for
// rules between fields, which it can't express.
func Schema() []byte {
	return []byte(schema)
}
