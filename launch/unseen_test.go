package launch

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// What wasn't seen of one program is counted together, whatever the numbers of
// its processes; and nothing is left out where there is too much.
func TestAddUnseen(t *testing.T) {
	tr := &trace{}
	for pid := range 5 {
		tr.addUnseen("sh", whyNot(&fs.PathError{Op: "open", Path: fmt.Sprintf("/proc/%d/mem", pid), Err: syscall.EMFILE}))
	}
	if got := tr.result().Unseen; len(got) != 1 || got[0].Count != 5 {
		t.Errorf("%+v; want one program, 5 times", got)
	}
	for i := range 2 * traceLimit {
		tr.addUnseen(fmt.Sprint(i), whyRing)
	}
	got, all := tr.result().Unseen, 0
	for _, u := range got {
		all += u.Count
	}
	if len(got) != traceLimit+1 || all != 5+2*traceLimit || got[traceLimit].Why != whyMore {
		t.Errorf("%d programs, %d times, the last %+v; want %d, %d", len(got), all, got[len(got)-1], traceLimit+1, 5+2*traceLimit)
	}
}
