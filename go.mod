module github.com/shofer-dev/shofer-sandbox

go 1.26.0

require golang.org/x/sys v0.50.0

require (
	github.com/creack/pty v1.1.24
	github.com/oklog/ulid/v2 v2.1.2
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	golang.org/x/net v0.62.0
	mvdan.cc/sh/v3 v3.14.1
)

require golang.org/x/text v0.43.0 // indirect

require (
	github.com/landlock-lsm/go-landlock v0.11.2
	kernel.org/pub/linux/libs/security/libcap/psx v1.2.78 // indirect
)
