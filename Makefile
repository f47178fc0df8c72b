# make help says what there is.

GO      ?= go
BIN     := bin/shofer-sandbox
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := $(GO) tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build try test check deps tidy fmt fmt-check vet lint deadcode vuln unit user-test test-vm test-vm-all fuzz cover conformance bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

build: ## the static programs, bin/shofer-sandbox and bin/runner
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/shofer-sandbox ./cmd/runner

try: build ## a commit and a build inside, and writes outside that are refused
	@scripts/try.sh $(BIN)

# The tests come last, so that what ends the output is their result.
test: deps check build user-test test-vm unit ## everything; as root also the tests as an ordinary user

check: tidy fmt-check vet lint deadcode ## all checks that run no test

deps: ## install what the tests need, or say it
	@scripts/deps.sh

tidy:
	$(GO) mod tidy -diff

fmt: ## rewrite the Go files in gofumpt's form
	$(TOOL) gofumpt -l -w .

fmt-check:
	@bad=$$($(TOOL) gofumpt -l .) || exit; \
	test -z "$$bad" || { echo "not in gofumpt's form (make fmt):"; echo "$$bad"; exit 1; }

# Vetting without cgo type-checks all that the launcher's build has.
vet:
	CGO_ENABLED=0 GOARCH=amd64 $(GO) vet ./...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...

lint: ## golangci-lint, as .golangci.yml says
	$(TOOL) golangci-lint run ./...

# A library has exported functions that no program of ours calls, so only what
# is reachable from neither programs nor tests is dead. Examples that would do
# something are compiled and not called.
deadcode:
	@dead=$$($(TOOL) deadcode -test ./...) || exit; \
	dead=$$(echo "$$dead" | grep -v 'unreachable func: Example'); \
	test -z "$$dead" || { echo "reached by no program and no test:"; echo "$$dead"; exit 1; }

vuln: ## known vulnerabilities (needs the vulnerability database)
	$(TOOL) govulncheck ./...

unit: ## the tests as the user who runs make
	scripts/test.sh

user-test: ## the tests as uid 1000 (when root)
	scripts/test-as-user.sh

test-vm: ## the tests on other kernels, in guests; docs/vm.md says what it needs
	$(GO) run ./test/vm/matrix $(VM_FLAGS)

test-vm-all: ## the same, with more combinations
	$(GO) run ./test/vm/matrix -all

fuzz: ## each fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh

cover: ## test coverage, in coverage.out
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out | tail -n 1

conformance: build ## what the launcher holds, in each backend, and others that are installed
	$(GO) run ./test/conformance -ours $(BIN)

bench: build ## compare start times with others, in one interleaved run
	$(GO) run ./bench -launcher $(BIN)

clean: ## remove what was built
	rm -rf bin coverage.out
