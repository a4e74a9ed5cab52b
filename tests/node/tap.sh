# Sourced by the tests of the Node package.

# node_tests LOG SECONDS COMMAND...: runs Node's test runner with the files of COMMAND. Each test is
# a line that the driver counts; the whole log is shown when one failed.
node_tests() {
    local log=$1 seconds=$2 status=0
    shift 2
    timeout "$seconds" "$@" >"$log" 2>&1 || status=$?
    sed -n -E -e 's/^ok [0-9]+ - (.*)/OK \1/p' -e 's/^not ok [0-9]+ - (.*)/FAILED \1/p' \
        "$log" | tr ' ,' '__' |
        sed -E -e 's/^OK_/[       OK ] /' -e 's/^FAILED_/[  FAILED  ] /'
    if [ "$status" != 0 ]; then
        cat "$log"
        exit 1
    fi
}

# node_guides FOLDER: the programs of docs/node.md as guide1.mjs, guide2.mjs...
node_guides() {
    awk -v folder="$1" '/^```js$/ { n++; on = 1; next } /^```$/ { on = 0 }
        on { print > (folder "/guide" n ".mjs") }' "$source_dir/docs/node.md"
}
