#!/usr/bin/env bash
# The static quipu runs where there is nothing: a folder that holds the program and no other file.
# usage: empty_chroot.sh PROGRAM [EMULATOR]
set -eu
program=$1
emulator=${2:-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$program" "$root/quipu"
words=(/quipu)
if [ -n "$emulator" ]; then
    cp "$(command -v "$emulator")" "$root/emulator"
    words=(/emulator /quipu)
fi
inside() {
    if [ "$(id -u)" = 0 ]; then
        chroot "$root" "${words[@]}" "$@"
    else
        unshare --user --map-root-user chroot "$root" "${words[@]}" "$@"
    fi
}
claim() {
    echo "[       OK ] $1"
}
inside version
claim static_program_starts_in_an_empty_chroot
inside demo /kept >"$root/shown"
grep -q . "$root/shown"
test -s "$root"/kept/*.db
claim static_program_plays_the_demo_in_an_empty_chroot
if inside help | grep -q '^  chat '; then
    status=0
    inside chat nobody </dev/null 2>"$root/refused" || status=$?
    test "$status" = 1
    grep -q 'without libcurl' "$root/refused"
    claim static_program_says_that_it_has_no_network
fi
