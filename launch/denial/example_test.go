package denial_test

import (
	"fmt"

	"github.com/shofer-dev/shofer-sandbox/launch"
	"github.com/shofer-dev/shofer-sandbox/launch/denial"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// What a command of a sandbox was refused is found in what it printed.
func Example() {
	s, err := launch.Prepare(policy.Policy{}, launch.Options{}) // which writes nothing
	if err != nil {
		fmt.Println(err, launch.Hint(err))
		return
	}
	defer func() { _ = s.Close() }()
	cmd := s.Command("touch", "/etc/new")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return
	}
	c := denial.Command{Dir: "/", Code: cmd.ProcessState.ExitCode(), Stderr: out}
	for _, d := range denial.Find(&c, s.Why) {
		fmt.Printf("%s %s: %s; %s\n", d.Op, d.Path, d.Text, d.Advice())
	}
}
