#!/bin/bash
# The first C block of README.md is a whole program: compile it against the staging install with
# the compiler a reader would use, and run it in a fresh folder.
# usage: readme_example.sh <stage prefix>
set -eu
stage=$1
readme=$(dirname "$0")/../../README.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' "$readme" >"$folder/example.c"
if ! grep -q 'main(' "$folder/example.c"; then
    echo "README.md has no \`\`\`c block with a main()" >&2
    exit 1
fi
pc=$(find "$stage" -name quipu.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="${pc%/*}" LD_LIBRARY_PATH="$libdir"
cd "$folder"
# shellcheck disable=SC2046 # pkg-config prints words
"${QUIPU_CC:-cc}" -std=c11 -Wall -Wextra -Werror example.c -o example $(pkg-config --cflags --libs quipu)
./example
