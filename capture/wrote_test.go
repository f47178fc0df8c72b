package capture

import "testing"

func TestWrote(t *testing.T) {
	var sizes []int64
	var c *Collector
	c = New(Options{Stdout: HeadTail(4), Wrote: func() { sizes = append(sizes, c.Stdout.Size()) }})
	for _, p := range []string{"one", "", "more"} {
		if _, err := c.Stdout.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	c.End()
	if _, err := c.Stdout.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 2 || sizes[0] != 3 || sizes[1] != 7 {
		t.Errorf("Wrote saw sizes %v; want 3 and 7", sizes)
	}
}
