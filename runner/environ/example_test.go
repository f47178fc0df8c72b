package environ_test

import (
	"fmt"
	"log"

	"github.com/shofer-dev/shofer-sandbox/runner/environ"
)

func ExampleBuild() {
	env, decisions, err := environ.Build(environ.Layers{
		Ambient: []string{"HOME=/home/ann", "REGISTRY_TOKEN=hunter2", "LANG=C.UTF-8"}, // such as os.Environ()
		Caller:  []string{"PAGER=less"},
		Managed: []string{"SHOFER_SESSION=s1"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(env[0], env[1], len(env) > 30)
	for _, d := range decisions {
		switch d.Name {
		case "HOME", "REGISTRY_TOKEN", "PAGER", "SHOFER_SESSION":
			fmt.Println(d)
		}
	}
	// Output:
	// HOME=/home/ann LANG=C.UTF-8 true
	// HOME: kept (ambient: inherited)
	// REGISTRY_TOKEN: dropped (scrub: the name contains TOKEN)
	// PAGER: set (hardening: nobody could leave a pager)
	// PAGER: set (caller: set by the caller)
	// SHOFER_SESSION: set (managed: set by the runner)
}
