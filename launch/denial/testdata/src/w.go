// Command w changes a path.
package main

import (
	"log"
	"os"
)

func main() {
	var err error
	switch path := os.Args[2]; os.Args[1] {
	case "write":
		err = os.WriteFile(path, nil, 0o600)
	case "rename":
		err = os.Rename(path, os.Args[3])
	case "mkdir":
		err = os.MkdirAll(path, 0o700)
	case "remove":
		err = os.Remove(path)
	}
	if err != nil {
		log.Fatal("saving: ", err)
	}
}
