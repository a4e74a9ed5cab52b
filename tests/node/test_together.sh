#!/usr/bin/env bash
# C, Go, Python and Node have one store open at once, and each sees what the others append.
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
export QUIPU_LIBRARY="$build/libquipu.so" CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly
export QUIPU_NODE_ADDON="$build/quipu_node.node" # test_node.sh made it
if ! go=$("$source_dir/tools/go.sh" "$build/go"); then
    echo "SKIP: no Go toolchain that is new enough"
    exit 77
fi
if ! node=$("$source_dir/tools/node.sh" "$build/node") || [ ! -f "$QUIPU_NODE_ADDON" ]; then
    echo "SKIP: no Node 20 or newer, or node.node has not run"
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
status=0
python3 "$source_dir/tests/python/run.py" --exec -c 'import quipu' || status=$?
if [ "$status" != 0 ]; then
    exit "$status"
fi
python="$build/python/venv/bin/python"
together="$source_dir/bindings/python/examples/together.py"
mkdir -p "$folder/node_modules"
ln -s "$source_dir/bindings/node" "$folder/node_modules/quipu-store"
cp "$source_dir/bindings/node/examples/together.mjs" "$folder/together.mjs"
"$node" "$folder/together.mjs" "$store" node 0 8 >"$folder/node" &
"$python" "$together" "$store" python 1 8 >"$folder/python" &
"$folder/together_c" "$store" c 2 8 >"$folder/c" &
"$folder/together_go" "$store" go 3 8 >"$folder/go" &
"$node" "$folder/together.mjs" "$store" node 4 8 >"$folder/node_again" &
"$python" "$together" "$store" python 5 8 >"$folder/python_again" &
"$folder/together_c" "$store" c 6 8 >"$folder/c_again" &
"$folder/together_go" "$store" go 7 8 >"$folder/go_again" &
for job in $(jobs -p); do
    wait "$job"
done
printf '%s was here\n' node python c go node python c go >"$folder/wanted"
for speaker in node python c go node_again python_again c_again go_again; do
    cmp "$folder/wanted" "$folder/$speaker"
    echo "[       OK ] ${speaker}_sees_the_messages_of_all"
done
