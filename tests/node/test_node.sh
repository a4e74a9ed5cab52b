#!/usr/bin/env bash
# The Node package on this build's libquipu: the addon is compiled against it, the package's own
# tests run, tsc --strict compiles its types, and the guide's program runs. Node and TypeScript come
# from the system or from the npm registry; where there are none it is a skip. (make node-package
# builds and tries what is published.)
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
package="$source_dir/bindings/node"
if ! node=$("$source_dir/tools/node.sh" "$build/node") ||
    ! headers=$("$source_dir/tools/node.sh" "$build/node" headers); then
    echo "SKIP: no Node 20 or newer, and no npm registry"
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
    -pthread -Wl,-rpath,"$build"
export QUIPU_NODE_ADDON="$build/quipu_node.node"

# With the Claude Agent SDK, its own fold of summaries is what the adapter's tests use.
tools="$build/node/node_modules"
claude="$tools/@anthropic-ai/claude-agent-sdk/sdk.mjs"
if [ -f "$claude" ] || npm install --silent --no-audit --no-fund --ignore-scripts --omit=optional \
    --prefix "$build/node" @anthropic-ai/claude-agent-sdk@0.3.327 >"$build/node-npm.log" 2>&1; then
    export QUIPU_CLAUDE_SDK="$claude"
fi
status=0
cd "$package"
log="$build/node-test.log"
timeout 600 "$node" --test --test-reporter=tap test/*.test.js >"$log" 2>&1 || status=$?
# The driver counts these lines.
sed -n -E -e 's/^ok [0-9]+ - (.*)/OK \1/p' -e 's/^not ok [0-9]+ - (.*)/FAILED \1/p' \
    "$log" | tr ' ,' '__' |
    sed -E -e 's/^OK_/[       OK ] /' -e 's/^FAILED_/[  FAILED  ] /'
if [ "$status" != 0 ]; then
    cat "$log"
    exit 1
fi

# The types, as a program's compiler sees them.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ ! -f "$tools/typescript/bin/tsc" ] || [ ! -d "$tools/@types/node" ]; then
    if ! npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$build/node" \
        typescript@5.9.3 @types/node@20 >"$build/node-npm.log" 2>&1; then
        echo "SKIP: TypeScript cannot be had: no npm registry"
        exit 77
    fi
fi
mkdir -p "$folder/node_modules"
ln -s "$package" "$folder/node_modules/quipu-store"
ln -s "$tools/@types" "$tools/undici-types" "$folder/node_modules/"
cp "$package/test/types.ts" "$folder/types.ts"
(cd "$folder" && "$node" "$tools/typescript/bin/tsc" --strict --noEmit --target es2022 \
    --module nodenext --preserveSymlinks --exactOptionalPropertyTypes --noUncheckedIndexedAccess \
    types.ts)
if [ -f "$claude" ]; then # the store is a SessionStore of the SDK's
    ln -s "$tools"/* "$folder/node_modules/" 2>/dev/null || true
    ln -s "$tools/@anthropic-ai" "$folder/node_modules/" 2>/dev/null || true
    printf '%s\n' "import type { SessionStore } from '@anthropic-ai/claude-agent-sdk';" \
        "import { QuipuSessionStore } from 'quipu-store/claude';" \
        "export const store: SessionStore = new QuipuSessionStore('a.db');" >"$folder/claude.ts"
    (cd "$folder" && "$node" "$tools/typescript/bin/tsc" --strict --noEmit --target es2022 \
        --module nodenext --preserveSymlinks --skipLibCheck claude.ts)
fi
echo "[       OK ] the_types_hold_in_strict_mode"

# The programs of docs/node.md work.
awk -v folder="$folder" '/^```js$/ { n++; on = 1; next } /^```$/ { on = 0 }
    on { print > (folder "/guide" n ".mjs") }' "$source_dir/docs/node.md"
test "$(cd "$folder" && "$node" guide1.mjs)" = "1 user Where is my parcel?"
echo "[       OK ] the_first_program_of_the_guide_appends_and_reads"
