#!/usr/bin/env bash
# The Go bindings on this build's libquipu, without cgo: our tests, ADK's own suite, the examples.
# The toolchain and the modules come from registries; where there are none it is a skip.
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
export QUIPU_LIBRARY="$build/libquipu.so"
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly
if ! go=$("$source_dir/tools/go.sh" "$build/go"); then
    echo "SKIP: no Go toolchain that is new enough"
    exit 77
fi
cd "$source_dir/bindings/go"
if ! "$go" mod download >"$build/go-modules.log" 2>&1; then
    echo "SKIP: the modules of bindings/go/go.sum cannot be had: no registry"
    exit 77
fi
gofmt="$("$go" env GOROOT)/bin/gofmt"
if [ -x "$gofmt" ]; then
    test -z "$("$gofmt" -l .)"
fi
"$go" vet ./...
status=0
"$go" test -v ./... >"$build/go-test.log" 2>&1 || status=$?
# The driver counts these lines; a skip is reported by name.
sed -n -E -e 's/^ *--- PASS: ([^ ]+) .*/[       OK ] \1/p' \
    -e 's/^ *--- SKIP: ([^ ]+) .*/[  SKIPPED ] \1/p' \
    -e 's/^ *--- FAIL: ([^ ]+) .*/[  FAILED  ] \1/p' "$build/go-test.log"
if [ "$status" != 0 ]; then
    cat "$build/go-test.log"
    exit 1
fi

# The first lines of docs/go.md are a program that works.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk '/^```go$/ { on = 1; next } /^```$/ && on { exit } on' "$source_dir/docs/go.md" \
    >"$folder/main.go"
"$go" build -o "$folder/first" "$folder/main.go"
(cd "$folder" && ./first | grep -Eq '^[0-9a-f-]{36} 0 <nil> <nil>$')
echo "[       OK ] first_lines_of_the_documentation_work"
