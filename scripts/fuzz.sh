#!/usr/bin/env bash
# Runs each fuzz target of the module for FUZZTIME (10s).
set -eu
cd "$(dirname "$0")/.."

grep -rno --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | while IFS=: read -r file _ func; do
	target=${func#func }
	echo "$file $target"
	go test -run='^$' -fuzz="^$target\$" -fuzztime="${FUZZTIME:-10s}" "$(dirname "$file")" </dev/null
done
