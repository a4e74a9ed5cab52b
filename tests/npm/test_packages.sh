#!/usr/bin/env bash
# The Node package's adapters with the packages that they are for, and its types as a program's
# compiler sees them. A pinned Node and its npm come from the package registry of Python, the
# packages from npm's; where these are not to be had it is a skip. (tests/node has made the addon.)
set -eu
source_dir=${QUIPU_SOURCE_DIR:?}
build=${QUIPU_BINARY_DIR:?}
source "$source_dir/tests/node/tap.sh"
package="$source_dir/bindings/node"
export QUIPU_NODE_ADDON="$build/quipu_node.node"
if ! node=$("$source_dir/tools/node.sh" "$build/node" pinned) || [ ! -f "$QUIPU_NODE_ADDON" ]; then
    echo "SKIP: no Node by pip, or node.node has not run"
    exit 77
fi
PATH="$(dirname "$node"):$PATH" # of npm
npm="$(dirname "$node")/../lib/node_modules/npm/bin/npm-cli.js"
folder="$build/npm"
pinned=(@anthropic-ai/claude-agent-sdk@0.3.327 @mastra/core@1.71.0 @mastra/libsql@1.23.1
    @mastra/memory@1.31.0 typescript@5.9.3 @types/node@22.20.0
    "@libsql/linux-$("$node" -p process.arch)-gnu@0.5.29") # of what is optional only this is needed
mkdir -p "$folder"
if [ "$(cat "$folder/pinned" 2>/dev/null)" != "${pinned[*]}" ]; then
    rm -rf "$folder/node_modules" "$folder/pinned"
    echo '{"private": true}' >"$folder/package.json"
    if ! "$node" "$npm" install --silent --no-audit --no-fund --ignore-scripts --omit=optional \
        --prefix "$folder" "${pinned[@]}" >"$build/npm.log" 2>&1; then
        cat "$build/npm.log"
        echo "SKIP: npm cannot install the pinned packages: no registry"
        exit 77
    fi
    echo "${pinned[*]}" >"$folder/pinned"
fi

# As npm would install it: a link would find its packages beside the repository.
installed="$folder/node_modules/quipu-store"
rm -rf "$installed"
mkdir -p "$installed"
cp -r "$package"/*.js "$package"/*.mjs "$package"/*.ts "$package"/*.mts "$package/lib" \
    "$package/package.json" "$installed"
cp "$package"/test/mastra.test.mjs "$package"/examples/{mastra,claude}.mjs "$package"/test/*.ts \
    "$folder"
export QUIPU_CLAUDE_SDK="$folder/node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs"
cd "$folder"
node_tests "$build/npm-test.log" 900 "$node" --test --test-reporter=tap \
    "$package/test/claude.test.js" mastra.test.mjs

tsc=("$node" node_modules/typescript/bin/tsc --strict --noEmit --target es2023 --module nodenext)
# Without the types that TypeScript 5 takes by itself, as later ones do not.
"${tsc[@]}" --typeRoots ./none --exactOptionalPropertyTypes --noUncheckedIndexedAccess types.ts
echo "[       OK ] the_types_hold_in_strict_mode"
"${tsc[@]}" --skipLibCheck adapters.ts
echo "[       OK ] the_adapters_have_the_types_of_their_frameworks"

rm -f example.db*
"$node" mastra.mjs example.db >first.txt
"$node" mastra.mjs example.db >second.txt
grep -q '^1 turns so far$' first.txt && grep -q '^2 turns so far$' second.txt
grep -q 'likes tea' second.txt
echo "[       OK ] the_example_of_mastra_remembers"

"$node" claude.mjs example.db hello >first.txt
"$node" claude.mjs example.db again >second.txt
grep -q 'heard 1 messages' first.txt && grep -q 'heard 2 messages' second.txt
echo "[       OK ] the_example_of_claude_reads_its_transcript_back"

# The programs of docs/node.md: one is compiled, since it asks a model, and the others run. The
# migrations find what their frameworks wrote, and copy it once.
rm -rf guides
mkdir guides
node_guides guides
cd guides
ls guide?.mjs | wc -l | grep -qx 5
grep -l ' query(' guide?.mjs | grep -qx guide2.mjs
node ../node_modules/typescript/bin/tsc --strict --noEmit --target es2023 --module nodenext \
    --allowJs --checkJs --skipLibCheck guide2.mjs
export CLAUDE_CONFIG_DIR="$PWD/claude"
session=5b0f0a3e-8f0b-5f4f-9d6b-2f6c1c7d9a10
mkdir -p "$CLAUDE_CONFIG_DIR/projects/-srv-shop"
for n in 1 2; do
    echo '{"type":"user","uuid":"00000000-0000-4000-8000-00000000000'$n'","parentUuid":null,' \
        '"sessionId":"'$session'","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/srv/shop",' \
        '"message":{"role":"user","content":"Where is my parcel?"}}'
done >"$CLAUDE_CONFIG_DIR/projects/-srv-shop/$session.jsonl"
cat >old.mjs <<'END'
import { LibSQLStore } from '@mastra/libsql';
const old = new LibSQLStore({ id: 'old', url: 'file:mastra.db' });
await old.init();
const memory = await old.getStore('memory');
const [threadId, resourceId, createdAt] = ['t', 'ada', new Date()];
const times = { createdAt, updatedAt: createdAt };
const thread = { id: threadId, resourceId, title: 'x', metadata: {}, ...times };
const content = { format: 2, parts: [{ type: 'text', text: 'Where is my parcel?' }] };
await memory.saveThread({ thread });
const message = { id: 'm', threadId, resourceId, role: 'user', createdAt, content };
await memory.saveMessages({ messages: [message] });
END
"$node" old.mjs
test "$("$node" guide1.mjs)" = "1 user Where is my parcel?"
for time in first again; do
    "$node" guide3.mjs
    "$node" guide4.mjs
    "$node" guide5.mjs | grep -q 'threads: 1, messages: 1'
done
cat >count.mjs <<'END'
import { open } from 'quipu-store';
const store = await open('agents.db');
const { hits } = await store.search('parcel');
console.log(hits.map((one) => one.sessionKey.split(/[:/]/).at(-1)).sort().join(' '));
await store.close();
END
test "$("$node" count.mjs)" = "$session $session t talk"
echo "[       OK ] the_programs_of_the_guide_run_and_what_they_bring_over_is_there_once"
