//go:build !amd64

package main

// calls are known for amd64 only.
var calls map[string]uint32
