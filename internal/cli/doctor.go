package cli

import (
	"fmt"
	"path/filepath"

	"github.com/shofer-dev/shofer-sandbox/internal/launcher"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (p *program) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [options] [worktree-dir]",
		Short: "Say what this machine holds",
		Long: `Says what this machine can hold of the sandbox's promises, found out by trying,
what would mend the rest, and where output and background commands are kept. It
exits with 0 only if every promise of every run holds.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			line := []string{"--doctor"}
			if asJSON {
				line = append(line, "--json")
			}
			p.code = launcher.Main(append(line, args...), p.version)
			if asJSON || p.code == exitFailed {
				return nil
			}
			return p.stateReport()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// stateReport says where things are kept, and whether that can be.
func (p *program) stateReport() error {
	dir, err := p.stateDir()
	if err != nil {
		return err
	}
	fmt.Println("\nstate")
	rows := [][]string{}
	row := func(name string, err error) {
		text := "ok"
		if err != nil {
			text, p.code = printable(err.Error()), 1
		}
		rows = append(rows, []string{"  " + name, printable(filepath.Join(dir, name)), text})
	}
	s, err := p.store()
	if err == nil {
		defer func() { _ = s.Close() }()
	}
	row("output", err)
	_, err = p.background()
	row("commands", err)
	printTable(rows, 0)
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil {
		fmt.Printf("  %s free\n", bytesText(int64(st.Bavail)*st.Bsize))
	}
	return nil
}
