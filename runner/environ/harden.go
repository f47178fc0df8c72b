package environ

import (
	"slices"
	"strings"
)

// Hardening says how a command is kept from waiting for somebody who isn't
// there. The zero value sets everything that the package knows of.
type Hardening struct {
	// Off sets and guards nothing.
	Off bool
	// Terminal says that the command has a terminal of its own, at which
	// somebody may look and answer. It then gets colours, TERM, prompts and
	// its user's editor; pagers stay off.
	Terminal bool
	// Lift are names that are neither set nor guarded.
	Lift []string
}

// setting is what hardening does with one name.
type setting struct {
	name, value string
	why         string
	drop        bool // the name instead of setting it
	guard       bool // the caller can't change it
	terminal    bool // the setting holds at a terminal too
}

// NoEditor is the command that stands for an editor: it says that there is
// none and fails, in a way that shells, git and programs that take a command
// apart by themselves understand.
const NoEditor = `sh -c 'echo "error: there is no editor in an unattended run: give the text as an option (git commit -m, --no-edit), or set GIT_EDITOR in the command itself" >&2; exit 1' editor`

// hardened has no setting twice, and those of one kind together.
var hardened = slices.Concat(
	kind(setting{why: "nobody could leave a pager", value: "cat", terminal: true},
		"PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER", "BAT_PAGER", "DELTA_PAGER", "GH_PAGER", "GLAB_PAGER",
		"PSQL_PAGER", "MYSQL_PAGER", "HOMEBREW_PAGER"),
	kind(setting{why: "nobody could leave a pager", terminal: true}, "AWS_PAGER"),
	kind(setting{why: "nobody could leave a pager", value: "FRX", terminal: true}, "LESS"),

	kind(setting{why: "nobody could use an editor", value: NoEditor, guard: true},
		"GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL", "EDITOR"),
	kind(setting{why: "a merge needs no editor", value: "no", terminal: true}, "GIT_MERGE_AUTOEDIT"),

	kind(setting{why: "nobody could answer", value: "0", guard: true}, "GIT_TERMINAL_PROMPT"),
	kind(setting{why: "nobody could answer", value: "false", guard: true}, "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS"),
	kind(setting{why: "nobody could answer", value: "never", guard: true}, "GCM_INTERACTIVE"),
	kind(setting{why: "questions would go to the host's terminal", drop: true, terminal: true}, "GPG_TTY"),

	kind(setting{why: "the output is read by a program", value: "dumb"}, "TERM"),
	kind(setting{why: "the output is read by a program", value: "1"}, "NO_COLOR"),
	kind(setting{why: "it would bring colours back", drop: true}, "COLORTERM", "FORCE_COLOR", "CLICOLOR_FORCE"),
	kind(setting{why: "output is to come as it is made", value: "1", terminal: true}, "PYTHONUNBUFFERED"),

	kind(setting{why: "tools ask less and don't watch", value: "true"}, "CI"),
	kind(setting{why: "nobody could answer", value: "noninteractive"}, "DEBIAN_FRONTEND"),
	kind(setting{why: "nobody could answer", value: "1"},
		"PIP_NO_INPUT", "POETRY_NO_INTERACTION", "COMPOSER_NO_INTERACTION", "GH_PROMPT_DISABLED",
		"CLOUDSDK_CORE_DISABLE_PROMPTS", "TF_IN_AUTOMATION"),
	kind(setting{why: "nobody could answer", value: "0"}, "TF_INPUT"),
	kind(setting{why: "nobody could answer", value: "true"}, "npm_config_yes"),
	kind(setting{why: "nobody reads it", value: "false"},
		"npm_config_update_notifier", "npm_config_fund", "npm_config_audit", "npm_config_progress",
		"YARN_ENABLE_PROGRESS_BARS"),
	kind(setting{why: "nobody reads it", value: "1"}, "PIP_DISABLE_PIP_VERSION_CHECK", "GH_NO_UPDATE_NOTIFIER"),
	kind(setting{why: "nobody reads it", value: "never"}, "CARGO_TERM_PROGRESS_WHEN"),

	kind(setting{why: "a shell reads no start-up files", drop: true, terminal: true}, "BASH_ENV", "ENV"),
)

// atTerminal is set where there is a terminal.
var atTerminal = []setting{{name: "TERM", value: "xterm-256color", why: "the command has a terminal", terminal: true}}

// kind returns the same setting for several names.
func kind(s setting, names ...string) []setting {
	list := make([]setting, len(names))
	for i, name := range names {
		list[i] = s
		list[i].name = name
	}
	return list
}

// settings are those that hold.
func (h *Hardening) settings() []setting {
	if h.Off {
		return nil
	}
	list := hardened
	if h.Terminal {
		list = slices.Concat(list, atTerminal)
	}
	return slices.DeleteFunc(slices.Clone(list), func(s setting) bool {
		return h.Terminal && !s.terminal || slices.Contains(h.Lift, s.name)
	})
}

// harden applies the settings before the caller's, and gives the command a
// locale in which text is UTF-8, unless it has one.
func (b *builder) harden(h *Hardening, list []setting) {
	for _, s := range list {
		if !s.drop {
			b.set(s.name, s.value)
			b.decide(s.name, Hardened, Set, s.why)
		} else if _, ok := b.at[s.name]; ok {
			b.drop(s.name, Hardened, s.why)
		}
	}
	if name := b.locale(); name != "" && !h.Off && !slices.Contains(h.Lift, name) {
		b.set(name, "C.UTF-8")
		b.decide(name, Hardened, Set, "text is UTF-8")
	}
}

// locale returns the variable that is to be set for text to be UTF-8, "" if it
// is that already. Languages and formats stay as they are, where they can.
func (b *builder) locale() string {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		value := b.get(name)
		if value == "" {
			continue
		}
		charset := strings.ToLower(value)
		if strings.Contains(charset, "utf-8") || strings.Contains(charset, "utf8") {
			return ""
		}
		if name == "LC_ALL" {
			return name
		}
		return "LC_CTYPE"
	}
	return "LANG"
}

// guard puts back what the caller may not change.
func (b *builder) guard(list []setting) {
	for _, s := range list {
		if !s.guard {
			continue
		}
		if _, ok := b.at[s.name]; ok && b.get(s.name) == s.value {
			continue
		}
		b.set(s.name, s.value)
		b.decide(s.name, Guard, Set, s.why)
	}
}
