#!/usr/bin/env bash
# What the core weighs above SQLite: a static program that keeps sessions (examples/first_store:
# create, append, fork, window, search), less one that does nothing but use SQLite. The bar is
# 400 KB. What the whole program adds (memory, importers, MCP and so on) is printed beside it.
# usage: static_size.sh BUILD
set -eu
build=$1
bar=409600
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/bare.c" <<'SOURCE'
#include <sqlite3.h>
int main(int argc, char **argv)
{
    sqlite3 *db = 0;
    return argc > 2 && sqlite3_open(argv[1], &db) == SQLITE_OK &&
           sqlite3_exec(db, argv[2], 0, 0, 0) == SQLITE_OK ? sqlite3_close(db) : 1;
}
SOURCE
gcc -Os -static -s -Wl,--gc-sections "$folder/bare.c" -o "$folder/bare" -lsqlite3 -lm 2>/dev/null
program=$(stat -c %s "$build/bin/quipu")
bare=$(stat -c %s "$folder/bare")
core=$(($(stat -c %s "$build/bin/first_store") - bare))
own=$(find "$build" -path '*quipu_program.dir*' -name '*.o' -exec size -t {} + |
    awk 'END { print $1 + $2 }')
echo "static quipu $program bytes: SQLite and libc $bare, the core $core (<= $bar)," \
    "the other rooms $((program - bare - core - own)), the verbs $own"
test "$core" -le "$bar"
