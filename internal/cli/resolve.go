package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (p *program) resolveCommand() *cobra.Command {
	a := &ask{mayNotSave: true}
	cmd := &cobra.Command{
		Use:   "resolve [options] 'shell command' | [--] program [argument...]",
		Short: "Say what run would do, and run nothing",
		Long: `Says what runner run would do with the same options and arguments, and where
each value comes from: the program with its arguments, the folder, the timeouts,
what becomes of each variable of the environment, and what the sandbox holds. It
runs nothing.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := p.resolve(cmd, a, args)
			if err != nil && a.json {
				return p.failJSON(err)
			}
			return err
		},
	}
	a.flags(cmd.Flags())
	cmd.Flags().Lookup("timeout").Usage += " (2m)"
	return cmd
}

func (p *program) resolve(cmd *cobra.Command, a *ask, args []string) error {
	q, stdin, err := a.request(cmd, args)
	if err != nil {
		return err
	}
	if stdin != nil {
		_ = stdin.Close()
	}
	eng, err := p.engine(a, nil)
	if err != nil {
		return err
	}
	defer func() { _ = eng.close() }()
	spec, err := eng.Resolve(q)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(spec)
	}
	fmt.Print(spec.String())
	s := spec.Authority.Sandbox
	if s == nil {
		fmt.Println("sandbox: none")
		return nil
	}
	fmt.Printf("sandbox: %s, %s, by %s\n", s.Mode, s.Enforcement, s.Backend)
	rows := make([][]string, 0, len(s.Features))
	for _, f := range s.Features {
		text := f.Why
		if f.By != "" {
			text = "by " + f.By
		}
		rows = append(rows, []string{"  " + string(f.Promise), string(f.State), printable(text)})
	}
	printTable(rows, 0)
	return nil
}
