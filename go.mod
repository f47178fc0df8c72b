module github.com/shofer-dev/shofer-sandbox

go 1.26

require (
	github.com/landlock-lsm/go-landlock v0.11.2
	golang.org/x/sys v0.50.0
	github.com/spf13/pflag v1.1.0
)
