#!/usr/bin/env bash
# The Node package on this build's libquipu: the addon is compiled against it, the package's own
# tests and the guide's program run. Node is the system's or comes from the package registry of
# Python; where there is none it is a skip. tests/npm has what needs packages of npm's, and make
# node-package builds and tries what is published.
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
source "$source_dir/tests/node/tap.sh"
package="$source_dir/bindings/node"
if ! node=$("$source_dir/tools/node.sh" "$build/node") ||
    ! headers=$("$source_dir/tools/node.sh" "$build/node" headers); then
    echo "SKIP: no Node 20 or newer, and pip cannot install one: no registry"
    exit 77
fi
jobs="$source_dir/bindings/python/native"
sources=("$package"/native/*.c)
for file in "$jobs"/*.c; do
    case "${file##*/}" in
        native_interrupt.c | native_sqlite.c) ;; # of Python alone
        *) sources+=("$file") ;;
    esac
done
${QUIPU_CC:-cc} -std=c11 -O1 -g -Wall -Wextra -Wshadow -fPIC -shared -fvisibility=hidden \
    -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -I"$source_dir/include" -I"$jobs" \
    -isystem "$headers" "${sources[@]}" -o "$build/quipu_node.node" "$build/libquipu.so" -lsqlite3 \
    -pthread -Wl,-rpath,"$build" -Wl,-z,nodelete # as bindings/node/CMakeLists.txt has it
export QUIPU_NODE_ADDON="$build/quipu_node.node"

cd "$package"
node_tests "$build/node-test.log" 600 "$node" --test --test-reporter=tap test/*.test.js

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/node_modules"
ln -s "$package" "$folder/node_modules/quipu-store"

# The first program of docs/node.md works; the others need npm's packages: tests/npm.
node_guides "$folder"
test "$(cd "$folder" && "$node" guide1.mjs)" = "1 user Where is my parcel?"
echo "[       OK ] the_first_program_of_the_guide_appends_and_reads"
