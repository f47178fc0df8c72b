package stdio_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/internal/stdio"
)

func Example() {
	ctx, release := stdio.Session(context.Background())
	defer release()
	in, out := stdio.NewLines(strings.NewReader("one\ntwo\n")), stdio.NewQueue(os.Stdout, nil)
	defer in.Stop()
	for {
		line, err := in.Next(ctx)
		if err != nil {
			break
		}
		_ = out.Put(fmt.Appendf(nil, "got %s\n", line))
	}
	_ = out.Close(ctx)
	// Output:
	// got one
	// got two
}
