package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shofer-dev/shofer-sandbox/policy"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// span is a time on the command line: 90, 90s, 1m30s, or none.
type span time.Duration

func (d *span) String() string {
	switch v := time.Duration(*d); v {
	case 0:
		return ""
	case runner.None:
		return "none"
	default:
		return v.String()
	}
}

func (d *span) Type() string { return "TIME" }

func (d *span) Set(s string) error {
	if s == "none" || s == "0" {
		*d = span(runner.None)
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		seconds, e := strconv.ParseFloat(s, 64)
		if e != nil {
			return fmt.Errorf("%q isn't a time, such as 90, 90s, 1m30s or none", s)
		}
		v = time.Duration(seconds * float64(time.Second))
	}
	if v <= 0 {
		return fmt.Errorf("%q isn't more than nothing", s)
	}
	*d = span(v)
	return nil
}

// size is a number of bytes on the command line: 4096, 64k, 1M.
type size int64

func (n *size) String() string {
	if *n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

func (n *size) Type() string { return "BYTES" }

func (n *size) Set(s string) error {
	v, err := policy.ParseSize(s)
	if err != nil || v <= 0 {
		return fmt.Errorf("%q isn't a size, such as 4096, 64K or 1M", s)
	}
	*n = size(v)
	return nil
}

// variables are values of the form NAME=VALUE.
type variables []string

func (l *variables) String() string { return "" }

func (l *variables) Type() string { return "NAME=VALUE" }

func (l *variables) Set(v string) error {
	if strings.Index(v, "=") <= 0 {
		return fmt.Errorf("%q isn't of the form NAME=VALUE", v)
	}
	*l = append(*l, v)
	return nil
}
