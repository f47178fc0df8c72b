package capture_test

import (
	"context"
	"fmt"
	"log"

	"github.com/shofer-dev/shofer-sandbox/capture"
)

// What a command has printed is read in pages, while it is running and after that.
func ExampleReader() {
	output := capture.New(capture.Options{})
	fmt.Fprint(output.Stdout, "compiling\nlinking\ntesting\n")
	output.End()

	ctx := context.Background()
	r := capture.NewReader(output.Stdout).With(capture.View{Render: true})
	page, err := r.Page(ctx, 14, 8)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(page.Text("cmd-1706119234567.txt"))
	if page, err = r.Tail(ctx, 1, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Println(page.Lines[0].Number, page.Lines[0].Text)
	// Output:
	// [Command Output: cmd-1706119234567.txt]
	// Total size: 26 bytes | Showing bytes 14-22 | TRUNCATED
	//
	// 2 | …ing
	// 3 | test…
	// 3 testing
}

// A search shows what fits, counts everything, and can go on.
func ExampleReader_Search() {
	output := capture.New(capture.Options{})
	for i := range 5 {
		fmt.Fprintf(output.Stdout, "test %d\nFAIL: test %d\n", i, i)
	}
	output.End()

	r := capture.NewReader(output.Stdout)
	query := capture.Query{Pattern: "fail", Limit: 64}
	for {
		m, err := r.Search(context.Background(), query)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d to %d of %d\n", m.First, m.First+m.Shown-1, m.Total)
		for _, l := range m.Lines {
			fmt.Println(l.Number, l.Text)
		}
		if m.Complete() {
			break
		}
		query.From = m.Next
	}
	// Output:
	// 1 to 3 of 5
	// 2 FAIL: test 0
	// 4 FAIL: test 1
	// 6 FAIL: test 2
	// 4 to 5 of 5
	// 8 FAIL: test 3
	// 10 FAIL: test 4
}
