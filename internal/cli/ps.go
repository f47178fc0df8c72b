package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/spf13/cobra"
)

func (p *program) psCommand() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [options]",
		Short: "List background commands",
		Long: `Lists the background commands that run, or with --all those that have ended,
too.`,
		Args: noOperands,
		RunE: func(*cobra.Command, []string) error { return p.ps(anyState, all, asJSON) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&all, "all", "a", false, "list those that have ended, too")
	f.BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// noOperands refuses operands.
func noOperands(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Sprintf("%s takes no %q", cmd.CommandPath(), args[0]), "see " + cmd.CommandPath() + " --help"}
	}
	return nil
}

// listed is a command with what it uses.
type listed struct {
	background.Status
	Load *background.Load `json:"load"`
}

// loadPatience is how long ps waits for supervisors.
const loadPatience = 3 * time.Second

// ps lists those of which that is true.
func (p *program) ps(which func(*background.Command) bool, all, asJSON bool) error {
	d, err := p.background()
	if err != nil {
		return err
	}
	commands, err := d.List()
	if err != nil {
		return err
	}
	list := []listed{}
	ended := 0
	for _, c := range commands {
		if !which(c) {
			continue
		}
		if c.Final() && !all {
			ended++
			continue
		}
		list = append(list, listed{Status: c.Status})
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadPatience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range list {
		if list[i].Final() {
			continue
		}
		c, err := d.Find(list[i].ID)
		if err != nil {
			continue // removed meanwhile
		}
		wg.Go(func() { list[i].Load, _ = c.Load(ctx) }) // unknown then
	}
	wg.Wait()
	if asJSON {
		for i := range list {
			list[i].Result = nil // runner wait --json has it
		}
		return printJSON(list)
	}
	printTable(psRows(list, time.Now()), columns(os.Stdout))
	if ended > 0 && !p.quiet && isTerminal(os.Stderr) {
		say(fmt.Sprintf("%d have ended: runner ps --all", ended))
	}
	return nil
}

func psRows(list []listed, now time.Time) [][]string {
	rows := [][]string{{"ID", "NAME", "STATE", "AGE", "PID", "PROCS", "MEMORY", "CPU", "OUTPUT", "COMMAND"}}
	for _, c := range list {
		row := []string{c.ID, c.Name, string(c.State), brief(now.Sub(c.Started)), "", "", "", "", "", c.Label}
		switch {
		case c.Final():
			row[2] = c.Outcome
			if c.State == background.Lost {
				row[2] = "lost"
			}
		case c.Load != nil:
			row[5] = fmt.Sprint(c.Load.Processes)
			row[6], row[7], row[8] = bytesText(c.Load.Memory), brief(c.Load.CPU), bytesText(c.Load.Output)
			fallthrough
		default:
			row[4] = fmt.Sprint(c.Pid)
		}
		for i := range row {
			if row[i] = printable(row[i]); row[i] == "" {
				row[i] = "-"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// printable keeps what others wrote from looking like lines of ours, or from
// talking to the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// printTable prints rows in columns. Where the width is known, lines are cut.
func printTable(rows [][]string, width int) {
	var widths []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(cell)
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		text := []rune(line.String())
		if width > 0 && len(text) > width {
			text = append(text[:width-1], '…')
		}
		b.WriteString(strings.TrimRight(string(text), " ") + "\n")
	}
	_, _ = os.Stdout.WriteString(b.String())
}
