#!/usr/bin/env bash
# Workers of memory in C, Go and Python on one store, killed in a loop: no message is skipped, none
# is observed twice, and generations have no gaps. With "pg" the store is in a server of its own.
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
export QUIPU_LIBRARY="$build/libquipu.so" CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly
if ! go=$("$source_dir/tools/go.sh" "$build/go"); then
    echo "SKIP: no Go toolchain that is new enough"
    exit 77
fi
folder=$(mktemp -d)
server="$folder/pg"
finish() {
    if [ -d "$server" ]; then
        bash "$source_dir/tests/lib/pg.sh" stop "$server"
    fi
    rm -rf "$folder"
}
store="$folder/workers.db"
trap finish EXIT
if [ "${1:-}" = pg ]; then
    status=0
    bash "$source_dir/tests/lib/pg.sh" start "$server" || status=$?
    if [ "$status" != 0 ]; then
        exit "$status"
    fi
    store=$(cat "$server/uri")
fi
cat >"$folder/worker.c" <<'END'
#include <quipu/memory.h>
#include <quipu/quipu.h>
int main(int argc, char **argv)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_store *store = NULL;

    options.lease_ms = 300;
    if (argc != 2 || quipu_open(argv[1], NULL, &store, NULL) != QUIPU_OK) {
        return 1;
    }
    while (quipu_memory_run(store, &options, NULL, NULL, NULL) == QUIPU_OK) {
    }
    return 1;
}
END
${QUIPU_CC:-cc} -std=c11 -I"$source_dir/include" "$folder/worker.c" -o "$folder/worker_c" \
    "$QUIPU_LIBRARY" -Wl,-rpath,"$build"
cd "$source_dir/bindings/go"
if ! "$go" build -o "$folder/worker_go" ./examples/worker; then
    echo "SKIP: the modules of bindings/go/go.sum cannot be had: no registry"
    exit 77
fi
status=0
python3 "$source_dir/tests/python/run.py" --exec -c 'import quipu' || status=$?
if [ "$status" != 0 ]; then
    exit "$status"
fi
python="$build/python/venv/bin/python"
"$python" "$source_dir/tests/go/workers.py" "$build/bin/quipu" "$folder/worker_c" \
    "$folder/worker_go" "$python" "$store"
