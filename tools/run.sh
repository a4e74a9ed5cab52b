#!/bin/sh
# Run the main job: the given program with its arguments, in a fresh folder that is removed
# afterwards. The program opens a store there, writes, reopens, and exits non-zero when what came
# back differs.
set -eu

if [ $# -eq 0 ] || [ "$1" = --help ]; then
    echo "usage: tools/run.sh <program> [<argument>...]"
    [ "${1:-}" = --help ] && exit 0
    exit 2
fi
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
cd "$folder"
"$program" "$@"
