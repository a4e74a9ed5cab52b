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

# The programs in docs/go.md work, and say so when there is no library.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk -v folder="$folder" '/^```go$/ { n++; on = 1; next } /^```$/ { on = 0 }
    on { print > (folder "/guide" n ".go") }' "$source_dir/docs/go.md"
for program in 1 2; do
    "$go" build -o "$folder/guide$program" "$folder/guide$program.go"
done
test "$(cd "$folder" && ./guide1)" = "1 user Where is my parcel?"
test "$(cd "$folder" && ./guide2)" = "1 event"
test "$(cd "$folder" && ./guide1 | wc -l)" = 2
echo "[       OK ] the_programs_of_the_guide_append_and_read"
for program in 1 2; do
    status=0
    (cd "$folder" && QUIPU_LIBRARY="$folder/none.so" "./guide$program" >out 2>&1) || status=$?
    test "$status" = 1
    grep -q "QUIPU_LIBRARY=.*/none.so cannot be loaded" "$folder/out"
done
echo "[       OK ] the_programs_of_the_guide_say_that_there_is_no_library"
