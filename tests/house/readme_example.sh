#!/bin/bash
# The examples of README.md work as printed: every `c block is compiled against the staging install
# and run in a fresh folder; a block that includes "name.h" gets it from the `ent block, by entgen.
# usage: readme_example.sh <stage prefix>
set -eu
stage=$1
readme=$(cd "$(dirname "$0")/../.." && pwd)/README.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# block <language> <number>: that fenced block of the language, counted from 1.
block() {
    awk -v fence="\`\`\`$1" -v want="$2" '
        $0 == fence { seen++; on = seen == want; next } /^```/ { on = 0 } on' "$readme"
}

pc=$(find "$stage" -name quipu.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="${pc%/*}" LD_LIBRARY_PATH="$libdir"

count=$(grep -c '^```c$' "$readme")
for number in $(seq "$count"); do
    block c "$number" >example.c
    if ! grep -q 'main(' example.c; then
        echo "README.md: C block $number has no main()" >&2
        exit 1
    fi
    generated=""
    stem=$(sed -n 's/^#include "\(.*\)\.h"$/\1/p' example.c | head -n 1)
    if [ -n "$stem" ]; then
        block ent 1 >"$stem.ent"
        "$(pkg-config --variable=entgen quipu)" "$stem.ent"
        generated=$stem.c
    fi
    # shellcheck disable=SC2046,SC2086 # both are lists of words
    "${QUIPU_CC:-cc}" -std=c11 -Wall -Wextra -Werror example.c $generated -o example \
        $(pkg-config --cflags --libs quipu)
    ./example
done
echo "$count examples"
[ "$count" -ge 2 ]
