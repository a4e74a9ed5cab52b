#!/bin/bash
# The examples of README.md work as printed: every `c block is compiled against the staging install
# and run in a fresh folder; a block that includes "name.h" gets it from the `ent block, by entgen.
# The `sh block that compiles chat.c runs as printed, too, in an empty home.
# The first example stays short: the body of its main() has at most 15 lines.
# usage: readme_example.sh <stage prefix>
set -eu
stage=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
readme=$source/README.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# block <language> <number>: that fenced block of the language, counted from 1.
block() {
    awk -v fence="\`\`\`$1" -v want="$2" '
        $0 == fence { seen++; on = seen == want; next } /^```/ { on = 0 } on' "$readme"
}

# as_printed: the commands around `cc -o chat chat.c` in an empty home. Only `make install` is stood
# in for: it copies the staging install to the prefix that the Makefile would pass on.
as_printed() {
    mkdir printed printed/bin printed/home
    cd printed
    block c 1 >chat.c
    for number in $(seq "$(grep -c '^```sh$' "$readme")"); do
        block sh "$number" >commands
        ! grep -q '^cc -o chat chat\.c ' commands || break
    done
    grep -q '^cc -o chat chat\.c ' commands
    cat >bin/make <<-EOF
	#!/bin/sh
	set -eu
	prefix=\$("$(command -v make)" -s -n -C "$source" "\$@" |
	    sed -n 's/.*cmake --install build\\/release --prefix "\\(.*\\)"\$/\\1/p')
	mkdir -p "\${prefix:?the Makefile installs nowhere}"
	cp -a "$stage/." "\$prefix"
	EOF
    chmod +x bin/make
    env -u PKG_CONFIG_PATH -u LD_LIBRARY_PATH -u MAKEFLAGS HOME="$PWD/home" \
        PATH="$PWD/bin:$PATH" bash -eu commands >said
    cat said
    [ -s said ] && [ -x home/.local/bin/quipu ]
    cd ..
}
as_printed

pc=$(find "$stage" -name quipu.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="${pc%/*}" LD_LIBRARY_PATH="$libdir"

body=$(block c 1 | awk '/^}/ { on = 0 } on && NF { n++ } /^{/ { on = 1 } END { print n }')
if [ "$body" -gt 15 ]; then
    echo "README.md: the body of the first example has $body lines; at most 15 are allowed" >&2
    exit 1
fi

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
