// Shofer-sandbox is a program.
package main

import _ "example.com/bad/internal/launcher"

func main() {}
