package main

import (
	"os"
	"testing"
)

func TestWrite(t *testing.T) {
	if err := os.WriteFile(os.Getenv("O")+"/new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
