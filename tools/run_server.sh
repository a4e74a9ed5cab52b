#!/bin/sh
# Serve a store for a moment: start the given program's server on a unix socket in the folder of the
# run, write and read through it, stop it, and say how to start it for good. A program without the
# server says so, which is no failure.
set -eu

if [ $# -ne 1 ] || [ "$1" = --help ]; then
    echo "usage: tools/run_server.sh <program>"
    [ "${1:-}" = --help ] && exit 0
    exit 2
fi
program=$1
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT INT TERM
export QUIPU_STORE="$folder/store.db" QUIPU_TOKEN_FILE="$folder/token"
(umask 077 && "$program" token new >"$QUIPU_TOKEN_FILE" 2>"$folder/why") || {
    echo "no server here: $(cat "$folder/why")"
    exit 0
}
"$program" serve --listen "unix:$folder/socket" >"$folder/out" 2>"$folder/log" &
server=$!
tries=0
until grep -q '^quipu serves ' "$folder/out"; do
    tries=$((tries + 1))
    [ "$tries" -le 200 ] && kill -0 "$server" || { cat "$folder/log" >&2 && exit 1; }
    sleep 0.05
done
"$program" append hello --create --text "over the server" --store "unix:$folder/socket" >/dev/null
echo "the server answers:"
"$program" ls --store "unix:$folder/socket"
kill "$server" && wait "$server"
server=
echo "start it for good:  $program token new > token; $program serve --open"
