#!/usr/bin/env bash
# C, Go and Python have one store open at once, and each sees what the others append.
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
export QUIPU_LIBRARY="$build/libquipu.so" CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly
if ! go=$("$source_dir/tools/go.sh" "$build/go"); then
    echo "SKIP: no Go toolchain that is new enough"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
store="$folder/agents.db"
${QUIPU_CC:-cc} -std=c11 -I"$source_dir/include" "$source_dir/examples/together/together.c" \
    -D_POSIX_C_SOURCE=200809L -o "$folder/together_c" "$QUIPU_LIBRARY" -Wl,-rpath,"$build"
cd "$source_dir/bindings/go"
if ! "$go" build -o "$folder/together_go" ./examples/together; then
    echo "SKIP: the modules of bindings/go/go.sum cannot be had: no registry"
    exit 77
fi
python=(python3 "$source_dir/tests/python/run.py" --exec)
status=0
"${python[@]}" -c 'import quipu' || status=$?
if [ "$status" != 0 ]; then
    exit "$status"
fi
together="$source_dir/bindings/python/examples/together.py"
"$build/python/venv/bin/python" "$together" "$store" python 0 6 >"$folder/python" &
"$folder/together_c" "$store" c 1 6 >"$folder/c" &
"$folder/together_go" "$store" go 2 6 >"$folder/go" &
"$build/python/venv/bin/python" "$together" "$store" python 3 6 >"$folder/python_again" &
"$folder/together_c" "$store" c 4 6 >"$folder/c_again" &
"$folder/together_go" "$store" go 5 6 >"$folder/go_again" &
for job in $(jobs -p); do
    wait "$job"
done
printf '%s was here\n' python c go python c go >"$folder/wanted"
for speaker in python c go python_again c_again go_again; do
    cmp "$folder/wanted" "$folder/$speaker"
    echo "[       OK ] ${speaker}_sees_the_events_of_all"
done
