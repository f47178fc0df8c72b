package capture

import (
	"errors"
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	for _, tc := range []struct {
		in string
		ok bool
	}{
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", true},
		{"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", true},
		{"cmd-1706119234567.txt", true},
		{"cmd-0.txt", true},
		{"", false},
		{"8ZZZZZZZZZZZZZZZZZZZZZZZZZ", false},              // more than 128 bits
		{"01arz3ndektsv4rrffq69g5fav", false},              // another spelling of a name
		{"01ARZ3NDEKTSV4RRFFQ69G5FAU", false},              // no U in this alphabet
		{"01ARZ3NDEKTSV4RRFFQ69G5FA", false},               // too short
		{"01ARZ3NDEKTSV4RRFFQ69G5FAVV", false},             // too long
		{"01ARZ3NDEKTSV4RRFFQ69G5FA\n", false},             //
		{"01ARZ3NDEKTSV4RRFFQ69G/../", false},              //
		{"cmd-.txt", false},                                //
		{"cmd-1.txt\n", false},                             //
		{"cmd-1.txt/../../etc/passwd", false},              //
		{"cmd-1/../2.txt", false},                          //
		{"cmd--1.txt", false},                              //
		{"cmd-１.txt", false},                               // a digit, but not one of ours
		{"../cmd-1.txt", false},                            //
		{"cmd-1.json", false},                              //
		{"cmd-" + strings.Repeat("1", 40) + ".txt", false}, //
	} {
		id, err := ParseID(tc.in)
		if tc.ok && (err != nil || string(id) != tc.in) || !tc.ok && (!errors.Is(err, ErrBadID) || id != "") {
			t.Errorf("ParseID(%q) = %q, %v; want ok %v", tc.in, id, err, tc.ok)
		}
	}
}
