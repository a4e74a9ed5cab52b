#!/usr/bin/env bash
# Lango's own migration, ent's, on files of Lango's: it works before an adoption, and after one it
# fails and changes nothing. bench/go/lango has the program; the toolchain and the modules come from
# registries, and where there are none it is a skip.
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly
if ! go=$("$source_dir/tools/go.sh" "$build/go"); then
    echo "SKIP: no Go toolchain that is new enough"
    exit 77
fi
cd "$source_dir/bench/go/lango"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! "$go" build -o "$folder/lango" . >"$build/go-lango.log" 2>&1; then
    if grep -Eq 'proxy|dial tcp|no such host|Forbidden|missing go.sum' "$build/go-lango.log"; then
        echo "SKIP: the modules of bench/go/lango/go.sum cannot be had: no registry"
        exit 77
    fi
    cat "$build/go-lango.log"
    exit 1
fi
"$go" vet .
export QUIPU_STORE="$folder/store.db"
for fixture in lango-mattn.db lango-modernc.db; do
    rm -f "$QUIPU_STORE"*
    cp "$source_dir/tests/fixtures/$fixture" "$QUIPU_STORE"
    "$folder/lango" migrate "$QUIPU_STORE"
    echo "[       OK ] ${fixture}_is_migrated_before_its_adoption"
    "$build/bin/quipu" doctor --migrate >/dev/null
    "$build/bin/quipu" export >"$folder/before"
    if "$folder/lango" migrate "$QUIPU_STORE" 2>"$folder/error"; then
        echo "[  FAILED  ] Lango has migrated an adopted file"
        exit 1
    fi
    grep -q new_sessions "$folder/error"
    "$build/bin/quipu" export | cmp - "$folder/before"
    "$build/bin/quipu" verify >/dev/null
    echo "[       OK ] ${fixture}_is_refused_after_its_adoption_and_unchanged"
done
