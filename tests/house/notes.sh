#!/bin/bash
# examples/notes builds from a copy of its own folder against the staging install, knowing nothing
# of this tree, by make and pkg-config or by CMake and find_package; then it runs.
# The example's contract: `make` builds ./notes, its CMakeLists.txt builds the target notes, and
# notes without arguments works in the current folder and exits 0 when all came back right.
# usage: notes.sh make|cmake <stage prefix>
set -eu
way=$1
stage=$2
source=$(cd "$(dirname "$0")/../../examples/notes" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -R "$source" "$folder/notes"
mkdir "$folder/data"

pc=$(find "$stage" -name quipu.pc)
libdir=$(dirname "$(dirname "$pc")")
export LD_LIBRARY_PATH="$libdir"
cd "$folder/notes"
case "$way" in
    make)
        PKG_CONFIG_PATH="${pc%/*}" make
        program=$folder/notes/notes
        ;;
    cmake)
        cmake -G Ninja -S . -B out -DCMAKE_PREFIX_PATH="$stage"
        cmake --build out
        program=$folder/notes/out/notes
        ;;
    *)
        echo "usage: notes.sh make|cmake <stage prefix>" >&2
        exit 2
        ;;
esac
cd "$folder/data"
"$program"
