#!/bin/sh
# examples/notes as a third party's project: quipu is installed to a staging prefix, the folder is
# copied out of the tree, built by make + pkg-config and by CMake + find_package, and each program
# goes through a scenario: the first half writes, the second half finds it in the reopened file.
# usage: test_notes.sh [build folder]        (default: $QUIPU_BINARY_DIR)
set -eu
build=${1:-${QUIPU_BINARY_DIR:?give the build folder to install from}}
source=$(cd "$(dirname "$0")/../../examples/notes" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
checks=0

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# expect TEXT COMMAND...: the command succeeds and its output contains the text.
expect() {
    wanted=$1
    shift
    "$@" >"$folder/output" 2>&1 || fail "$* failed: $(cat "$folder/output")"
    grep -qF -e "$wanted" "$folder/output" ||
        fail "$*: expected \"$wanted\", found: $(cat "$folder/output")"
    checks=$((checks + 1))
}

# lack TEXT: the last command's output does not contain the text.
lack() {
    ! grep -qF -e "$1" "$folder/output" || fail "unexpected \"$1\" in: $(cat "$folder/output")"
    checks=$((checks + 1))
}

# refuse CODE TEXT COMMAND...: the command exits with the code and prints the text.
refuse() {
    code=$1
    wanted=$2
    shift 2
    found=0
    "$@" >"$folder/output" 2>&1 || found=$?
    [ "$found" -eq "$code" ] || fail "$*: exit $found instead of $code: $(cat "$folder/output")"
    grep -qF -e "$wanted" "$folder/output" ||
        fail "$*: expected \"$wanted\", found: $(cat "$folder/output")"
    checks=$((checks + 1))
}

write_half() {
    expect 'usage: notes' "$1" --help
    expect 'no notes here' "$1"
    expect 'added note 1' "$1" add -b travel -k task -l train -l peru 'Book the train' \
        'before Friday'
    expect 'added note 2' "$1" add -b travel 'Cusco in two days'
    expect 'added note 3' "$1" add -k journal 'A quipu is a text' 'Knots on strings, read by hand.'
    refuse 1 'title' "$1" add ''
    refuse 2 'not a value' "$1" add -k poem 'A title'
    refuse 2 'unknown command' "$1" ad
    expect 'starred note 1' "$1" star 1
    refuse 1 'notes: 99' "$1" star 99
    refuse 2 'number of a note' "$1" delete one
}

read_half() {
    expect '   1 * task' "$1" list
    expect 'Book the train  [travel] #peru #train' "$1" list
    expect 'A quipu is a text  [inbox]' "$1" list -n 1
    lack 'Cusco'
    expect 'more: repeat with -a 3' "$1" list -n 1
    expect 'Cusco in two days' "$1" list -n 1 -a 3
    expect 'more: repeat with -a 2' "$1" list -n 1 -a 3
    expect 'Book the train' "$1" list -n 1 -a 2
    lack 'more'
    expect 'Cusco' "$1" list -b travel
    lack 'quipu'
    expect 'A quipu' "$1" list -k journal
    lack 'Cusco'
    expect 'A quipu' "$1" search 'knot*' strings
    lack 'train'
    expect 'no notes here' "$1" search nowhere
    expect 'before Friday' "$1" show 1
    expect 'unstarred note 1' "$1" unstar 1
    expect 'deleted note 2' "$1" delete 2
    refuse 1 'no note 2' "$1" delete 2
    expect 'Book the train' "$1" list
    lack 'Cusco'
}

# scenario PROGRAM NAME: both halves, on a file of its own.
scenario() {
    NOTES_DB=$folder/$2.db
    export NOTES_DB
    write_half "$1"
    read_half "$1"
    echo "ok: $2"
}

cmake --install "$build" --prefix "$folder/stage" >"$folder/install.log" ||
    fail "install: $(cat "$folder/install.log")"
pc=$(find "$folder/stage" -name quipu.pc)
PKG_CONFIG_PATH=${pc%/*}
LD_LIBRARY_PATH=${PKG_CONFIG_PATH%/*}
export PKG_CONFIG_PATH LD_LIBRARY_PATH

cp -R "$source" "$folder/by_make"
cd "$folder/by_make"
make CFLAGS='-Wall -Wextra -Werror' >"$folder/make.log" 2>&1 ||
    fail "make: $(cat "$folder/make.log")"
make -q || fail 'make: a second run has something to do'
scenario "$folder/by_make/notes" make

# A later version of the program with one field more opens the file of the former one.
awk '{ print } /^  starred / { print "  rating int?" }' notes.ent >changed.ent
grep -q rating changed.ent || fail 'the field was not added'
mv changed.ent notes.ent
make >"$folder/make.log" 2>&1 || fail "make after the change: $(cat "$folder/make.log")"
expect 'Book the train' ./notes list
echo 'ok: a field added'

cp -R "$source" "$folder/by_cmake"
cd "$folder/by_cmake"
# The output is named after the schema, whatever the file is called.
mv notes.ent jotter.ent
sed 's/notes\.ent/jotter.ent/' CMakeLists.txt >renamed && mv renamed CMakeLists.txt
{
    cmake -S . -B out -DCMAKE_PREFIX_PATH="$folder/stage"
    cmake --build out
} >"$folder/cmake.log" 2>&1 || fail "cmake: $(cat "$folder/cmake.log")"
scenario "$folder/by_cmake/out/notes" cmake

echo "$checks checks"
