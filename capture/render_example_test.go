package capture_test

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/shofer-dev/shofer-sandbox/capture"
)

// A progress bar of three frames, colours and a token are shown as they would be
// on a terminal that nobody may photograph.
func ExampleView_Show() {
	view := capture.View{Render: true, Redact: capture.NewRedactor([]string{"correct-horse"}, true)}
	text, secrets := view.Show([]byte("10%\r50%\r100%\n\x1b[32mlogged in\x1b[0m with correct-horse\r\n"))
	fmt.Print(text)
	fmt.Println(secrets, "secret")
	// Output:
	// 100%
	// logged in with [redacted]
	// 1 secret
}

// A stream is rendered as it comes, in bounded memory.
func ExampleRenderer() {
	w := capture.NewRenderer(os.Stdout, capture.View{Render: true, Fold: true})
	if _, err := io.Copy(w, strings.NewReader(strings.Repeat("\x1b[2Kstill waiting for the server\n", 1000)+"ready\n")); err != nil {
		fmt.Println(err)
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// still waiting for the server
	// <previous line repeated 999 additional times>
	// ready
}
