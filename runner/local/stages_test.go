package local_test

import (
	"slices"
	"testing"

	"github.com/shofer-dev/shofer-sandbox/runner"
)

// The stages of a pipeline are told apart, and nothing else of the command is
// changed by that.
func TestPipeStatus(t *testing.T) {
	each(t, func(t *testing.T, way string, c runner.Config) {
		r := newRunner(t, c)
		for _, tt := range []struct {
			command string
			code    int
			want    []int
		}{
			{"false | true", 0, []int{1, 0}},
			{"(exit 3) | (exit 4) | cat", 0, []int{3, 4, 0}},
			{"true", 0, []int{0}},
			{"false | true; exit 7", 7, []int{1, 0}},
			{"set -e -o pipefail; (exit 5) | cat; echo never", 5, []int{5, 0}},
			{"nosuchcommand | cat\n\n", 0, []int{127, 0}},
			{"# a comment\nfalse | true", 0, []int{1, 0}},
			{"exec sh -c 'exit 2'", 2, nil},
			{"false | true; kill -9 $$", -1, nil},
			{"trap 'exit 6' EXIT; false | true", 6, nil},
			{"false | true; echo rubbish >&3; echo rubbish >&4; false | true", 0, nil},
		} {
			for _, transport := range []runner.Transport{runner.TransportArgv, runner.TransportFD} {
				res := run(t, r, runner.Request{Command: tt.command, Transport: transport, PipeStatus: true})
				if res.ExitCode != tt.code || !slices.Equal(res.PipeStatus, tt.want) {
					t.Errorf("%q by %s: code %d, stages %v; want %d, %v", tt.command, transport, res.ExitCode, res.PipeStatus, tt.code, tt.want)
				}
			}
		}
		if res := run(t, r, runner.Request{Command: "false | true"}); res.PipeStatus != nil {
			t.Errorf("stages %v without having been asked for", res.PipeStatus)
		}
	})
}
