package cli

import (
	"os"

	"github.com/shofer-dev/shofer-sandbox/internal/background"
	"github.com/spf13/cobra"
)

func (p *program) completionCommand(root *cobra.Command) *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes commands in a shell",
		Long: `Prints a script by which a shell completes commands, options and the names of
background commands. It is to be loaded by the shell:

    bash   source <(runner completion bash)
    zsh    source <(runner completion zsh)
    fish   runner completion fish | source

That for bash needs the package bash-completion.`,
		ValidArgs: shells,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				switch args[0] {
				case "bash":
					return root.GenBashCompletionV2(os.Stdout, true)
				case "zsh":
					return root.GenZshCompletion(os.Stdout)
				case "fish":
					return root.GenFishCompletion(os.Stdout, true)
				}
			}
			return &usageError{"name a shell: bash, zsh or fish", "runner completion bash"}
		},
	}
}

// completeCommands completes the names of background commands.
func (p *program) completeCommands(which func(*background.Command) bool) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		d, err := p.background()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := d.List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, c := range all {
			if !which(c) {
				continue
			}
			name := c.Name
			if name == "" {
				name = c.ID
			}
			names = append(names, name+"\t"+printable(c.Label))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func anyState(*background.Command) bool { return true }

func running(c *background.Command) bool { return !c.Final() }

func runningSession(c *background.Command) bool { return c.Session && !c.Final() }
