package intercept_test

import (
	"fmt"

	"github.com/shofer-dev/shofer-sandbox/runner/intercept"
)

func Example() {
	in, bad := intercept.New(intercept.DefaultRules())
	for _, b := range bad {
		fmt.Println(b)
	}
	tools := []string{"read", "search"}
	if b := in.Check("cd src && cat main.go", tools); b != nil {
		fmt.Printf("%s: %q\n", b.Tool, b.Part)
	}
	fmt.Println(in.Check("sed -i s/a/b/ main.go", tools) == nil) // there is no edit tool
	// Output:
	// read: "cat main.go"
	// true
}

func ExampleLiftLimits() {
	fmt.Println(intercept.LiftLimits("make test 2>&1 | tail -n 30"))
	fmt.Println(intercept.LiftLimits("make test | tail -f"))
	// Output:
	// make test 2>&1 {0 30}
	// make test | tail -f {0 0}
}

func ExampleHasPrefix() {
	servers := []string{"npm run dev", "tail -f"}
	for _, command := range []string{"cd web && npm run dev", "npm run deploy", "tail -f log; make"} {
		ok, err := intercept.HasPrefix(command, servers)
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
	// false <nil>
}
