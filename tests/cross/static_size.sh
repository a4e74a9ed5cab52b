#!/usr/bin/env bash
# What the library weighs in the static program: its size, less the program's own files, less a
# static program that does nothing but use SQLite. The bar is 400 KB.
# usage: static_size.sh BUILD
set -eu
build=$1
bar=409600
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/bare.c" <<'END'
#include <sqlite3.h>
int main(int argc, char **argv)
{
    sqlite3 *db = 0;
    return argc > 2 && sqlite3_open(argv[1], &db) == SQLITE_OK &&
           sqlite3_exec(db, argv[2], 0, 0, 0) == SQLITE_OK ? sqlite3_close(db) : 1;
}
END
gcc -Os -static -s -Wl,--gc-sections "$folder/bare.c" -o "$folder/bare" -lsqlite3 -lm 2>/dev/null
program=$(stat -c %s "$build/bin/quipu")
bare=$(stat -c %s "$folder/bare")
own=$(find "$build" -path '*quipu_program.dir*' -name '*.o' -exec size -t {} + |
    awk 'END { print $1 + $2 }')
core=$((program - bare - own))
echo "static quipu $program bytes: SQLite and libc $bare, the verbs $own, libquipu $core (<= $bar)"
test "$core" -le "$bar"
