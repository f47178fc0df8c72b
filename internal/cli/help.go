package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// help prints the help of a command: what it does, its options by sections, and
// those of the program.
func help(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	b.WriteString(cmd.Long + "\n\nUsage: ")
	if cmd.HasParent() {
		b.WriteString(cmd.Parent().CommandPath() + " " + cmd.Use + "\n")
	} else {
		b.WriteString("runner command [options] ...\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-12s %s\n", c.Name(), c.Short)
			}
		}
	}
	var titles []string
	sections := map[string]*pflag.FlagSet{}
	everywhere := cmd.Root().PersistentFlags()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if everywhere.Lookup(f.Name) != nil || f.Name == "help" {
			return
		}
		title := "Options:"
		if g := f.Annotations[groupKey]; len(g) > 0 {
			title = g[0]
		}
		if sections[title] == nil {
			titles = append(titles, title)
			sections[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
			sections[title].SortFlags = false
		}
		sections[title].AddFlag(f)
	})
	for _, t := range titles {
		b.WriteString("\n" + t + "\n" + sections[t].FlagUsagesWrapped(helpWidth))
	}
	b.WriteString("\nEvery command:\n" + everywhere.FlagUsagesWrapped(helpWidth))
	if cmd.Example != "" {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	fmt.Fprint(cmd.OutOrStdout(), b.String())
}

const helpWidth = 80
