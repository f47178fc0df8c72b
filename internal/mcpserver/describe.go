package mcpserver

import (
	"fmt"
	"strconv"
	"time"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

const instructions = `Run shell commands with execute_command. A command that takes long goes on in the background under an id: read_command_output shows what it prints, write_stdin answers its questions, kill_command ends it, list_commands lists all. Everything ends with this session.`

// aboutExecute gets the soft timeout, the hard one, and the folder.
const aboutExecute = `Runs a shell command and returns its exit code and output (standard output and standard error together).

timeout is how many seconds to wait (%s if absent; 0 waits until the end). It does not end the command: the command continues running in the background and you receive the output so far, and an id. Use that id with read_command_output, write_stdin and kill_command; do not run the command again. Start servers and watchers with a short timeout. %s

The folder is %s unless cwd says otherwise; each call begins there anew, and variables are not kept. Nobody is there to answer questions: standard input is empty unless interactive or tty is set, and editors and pagers do not open.

Long output is shown by its beginning and its end, with [...N bytes omitted...] between, and kept in whole under an artifact id, which read_command_output reads and searches. Do not run a command again only to see more of its output; head and tail choose which lines to show, and do not end the command.

Processes that a command leaves when it ends are ended; do not use "&" or nohup to keep something running, use timeout.

Commands may be confined: then writing outside what is granted fails with "Permission denied" or "Read-only file system", and the result says "[sandbox: file access denied under … mode]". Neither sudo nor another attempt helps, and nothing here widens it: tell the user what is needed and why.`

const aboutRead = `Shows output of a command: of one that runs or has ended, by its id, or of an artifact, by its id. Lines have their numbers.

offset is where to begin, in bytes (0 if absent; a negative one counts from the end), limit how many bytes to show (40960 if absent). TRUNCATED in the header says that more follows: go on at the offset that the answer names. search shows only the lines that match, with the total: a regular expression without regard to case (one that is invalid is searched for as it is). Omit it otherwise, rather than pass null or an empty string; offset has no effect with it. wait waits at most that many seconds for output after offset, or the end, of a command that runs.`

const aboutList = `Lists the commands of this session with their ids, the oldest first: those that run, also in the background, and those that have ended, as long as they are remembered.`

const aboutKill = `Ends a command with all its processes: it is asked to end, and killed if it does not within some seconds. Of one that has ended already, it does nothing. The answer has its last output.`

const aboutWrite = `Writes text to the standard input of a command that was started with interactive or tty. End a line with \n. With close, standard input is closed afterwards. On a terminal, \u0003 interrupts and \u0004 is the end of input. What the command prints then is shown by read_command_output, from the offset that the answer names.`

// describe returns the description of execute_command, which says how things are
// here.
func (s *server) describe() string {
	spec, err := s.runner.Resolve(runner.Request{Command: "true"})
	if err != nil { // its folder is gone, say: a call will tell
		return fmt.Sprintf(aboutExecute, "some", "A command may also have a limit after which it is ended.", "that of the server")
	}
	soft, hard := "no limit", ""
	if spec.SoftTimeout > 0 {
		soft = seconds(spec.SoftTimeout)
	}
	if spec.Timeout > 0 && spec.Timeout < year {
		hard = fmt.Sprintf("A command is ended after %s seconds, also in the background.", seconds(spec.Timeout))
	}
	return fmt.Sprintf(aboutExecute, soft, hard, spec.Dir)
}

// seconds returns a time in seconds.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
