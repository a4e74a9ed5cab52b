#!/bin/sh
# The program from a shell: help, mistyped words, the demo, imports of the fixtures, exit codes, and
# which stream gets what.
# usage: test_quipu.sh [build folder]        (default: $QUIPU_BINARY_DIR)
set -eu
build=${1:-${QUIPU_BINARY_DIR:?give the build folder}}
quipu=$build/bin/quipu
[ -x "$quipu" ] || quipu=$build/../quipu # where the release lands
fixtures=$(cd "$(dirname "$0")/../fixtures" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
unset QUIPU_STORE XDG_DATA_HOME
HOME=$folder/nobody
export HOME
checks=0

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# run CODE COMMAND...: the command exits with the code; its streams are in $folder/out and err.
run() {
    code=$1
    shift
    found=0
    "$@" >"$folder/out" 2>"$folder/err" || found=$?
    [ "$found" -eq "$code" ] ||
        fail "$*: exit $found instead of $code: $(cat "$folder/out" "$folder/err")"
    checks=$((checks + 1))
}

# has STREAM TEXT, lacks STREAM: about the last run.
has() {
    grep -qF -e "$2" "$folder/$1" || fail "no \"$2\" in $1: $(cat "$folder/$1")"
    checks=$((checks + 1))
}

lacks() {
    [ ! -s "$folder/$1" ] || fail "$1 should be empty: $(cat "$folder/$1")"
    checks=$((checks + 1))
}

run 0 "$quipu" --help
has out 'usage: quipu VERB'
lacks err
run 2 "$quipu"
lacks out
has err 'usage: quipu VERB'
run 2 "$quipu" improt x
has err 'did you mean "import"?'
run 2 "$quipu" zzzzzzzz
has err 'there is no verb'
run 0 "$quipu" import --help
has out '--dry-run'
run 2 "$quipu" import --dryrun x
has err 'did you mean --dry-run?'
run 2 "$quipu" import --store
has err 'needs a value'
run 2 "$quipu" import --json=yes x
has err 'takes no value'
run 2 "$quipu" import
has err 'usage: quipu import'
run 3 "$quipu" import a b # several files are imported one after the other
has err 'a: No such file or directory'
run 2 "$quipu" import --kind adk-og x
has err 'did you mean "adk-go"?'
run 0 "$quipu" version
has out 'quipu 0.'
run 0 "$quipu" version --json
has out '"version":"0.'
run 0 "$quipu" --version
echo 'ok: words'

run 0 "$quipu" demo
lacks err
for text in 'Everything was read back unchanged' '▸ find_trains' 'window  ' 'search  ' \
    'fork  ' 'weight  ' \
    'state  ' 'To try next'; do
    has out "$text"
done
run 0 "$quipu" demo "$folder/kept"
[ -s "$folder/kept/store.db" ] || fail 'the demo kept nothing'
run 1 "$quipu" demo "$folder/kept"
echo 'ok: demo'

run 3 "$quipu" import --store "$folder/s.db" "$folder/missing.db"
has err 'missing.db'
printf 'nothing of the kind' >"$folder/odd"
run 1 "$quipu" import --store "$folder/s.db" "$folder/odd"
has err 'is of no known kind'
run 1 "$quipu" import --store "$folder/s.db" "$folder/kept/store.db"
has err "is a quipu store"
echo 'ok: refused'

cp "$fixtures"/*.db "$folder"
chmod u+w "$folder"/*.db
store=$folder/all.db
run 0 "$quipu" import --store "$store" --dry-run --json "$folder/adk-go-database.db"
has out '"kind":"adk-go","dry_run":true,"sessions":2,"messages":11,"states":'
has out '"orphans":1}'
has err "orphan: the session of row 12 does not exist"
[ ! -e "$store" ] || fail 'a dry run made a store'
run 0 "$quipu" import --store "$store" --json --quiet "$folder/adk-go-database.db"
has out '"dry_run":false,"sessions":2,"messages":11'
lacks err
run 0 "$quipu" import "$folder/adk-go-database.db" --store="$store"
has out '2 sessions were there before'
run 4 "$quipu" import --store "$store" "$folder/adk-python-sqlite.db"
has err 'another session with the key'
run 1 "$quipu" import --store "$store" --kind lango "$folder/adk-python-sqlite.db"
has err 'adk-sqlite, not lango'
QUIPU_STORE=$folder/by_name.db
export QUIPU_STORE
run 0 "$quipu" import "$folder/adk-python-database.db"
has out 'adk-database, imported: 2 sessions, 12 messages'
run 0 "$quipu" import "$folder/lango-mattn.db"
has out 'lango, imported: 2 sessions, 9 messages, 5 memories'
unset QUIPU_STORE
run 0 "$quipu" import "$folder/adk-python-database-v0.db"
has out 'adk-v0, imported: 1 session, 11 messages'
[ -s "$HOME/.local/share/quipu/store.db" ] || fail 'the store is not in the data folder'
echo 'ok: imports'
echo "$checks checks"
