#!/bin/sh
# Install the Debian packages that a target needs and that are missing; touch nothing when nothing
# is. Without root or a passwordless sudo it prints the exact line to run and exits 2.
# QUIPU_SKIP_DEPS=1 skips the whole thing (other systems, packages from elsewhere).
set -eu

usage() {
    echo "usage: tools/deps.sh run|deb|bench|test|check|cross|wheels|cluster"
    echo "  run    what 'make run' and 'make install' need"
    echo "  deb    run, and what 'make deb' needs"
    echo "  bench  run, and what 'make bench' needs"
    echo "  test   run, and what 'make test' needs"
    echo "  check  test, and what 'make check' needs"
    echo "  cross  test, and what 'make test-cross' needs: cross compilers, arm64 libraries, qemu"
    echo "  wheels run, and what 'make wheels' needs: headers of libpq, debootstrap, qemu"
    echo "  cluster  test, and what 'make test-cluster' needs: servers, Patroni, etcd"
}

run="gcc libc6-dev cmake ninja-build pkg-config libsqlite3-dev libcurl4-openssl-dev libevent-dev"
run="$run libssl-dev"
deb="$run python3 dpkg-dev"
bench="$run python3 valgrind"
test="$run g++ libcmocka-dev libjansson-dev clang-19 clang-format-19 libclang-rt-19-dev"
test="$test dpkg-dev debootstrap systemd libpq-dev postgresql-15 pgbouncer abigail-tools"
test="$test sqlite3 python3 python3-dev python3-venv openssl zsh fish groff-base chromium"
test="$test python3-cryptography"
check="$test clang-tidy-19 cppcheck"
cross="$test gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
cross="$cross libsqlite3-dev:arm64 libcmocka-dev:arm64 libjansson-dev:arm64"
cross="$cross gcc-s390x-linux-gnu libc6-dev-s390x-cross"
wheels="$run libpq-dev debootstrap python3 python3-dev python3-venv qemu-user-static"
cluster="$test patroni python3-etcd etcd-server iproute2 nftables"

case "${1:-}" in
    run) wanted=$run ;;
    deb) wanted=$deb ;;
    bench) wanted=$bench ;;
    test) wanted=$test ;;
    check) wanted=$check ;;
    cross) wanted=$cross ;;
    wheels) wanted=$wheels ;;
    cluster) wanted=$cluster ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
esac

if [ "${QUIPU_SKIP_DEPS:-}" = 1 ]; then
    exit 0
fi
if ! command -v dpkg >/dev/null 2>&1; then
    echo "deps: no dpkg here; install the equivalents of: $wanted" >&2
    echo "deps: then say QUIPU_SKIP_DEPS=1" >&2
    exit 2
fi

# A query lists every architecture that a package is installed for; "dpkg -s" refuses to list any
# when there are two.
native=$(dpkg --print-architecture)
# shellcheck disable=SC2016,SC2086 # the fields are dpkg's; the words are meant to be split
installed=$(dpkg-query -W -f '${Package}:${Architecture} ${db:Status-Status}\n' $wanted \
    2>/dev/null) || true
missing=""
for package in $wanted; do
    case "$package" in
        *:*) whole=$package ;;
        *) whole=$package:$native ;;
    esac
    if ! echo "$installed" |
        grep -qxF -e "$whole installed" -e "${package%:*}:all installed"; then
        missing="$missing $package"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi

# $missing starts with a space, so the printed lines join cleanly.
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "deps: packages are missing and neither root nor sudo is at hand; run as root:" >&2
    echo "$install"
    exit 2
fi

echo "deps: installing$missing"
case "$missing" in
    *:arm64*) $as_root dpkg --add-architecture arm64 ;;
esac
# shellcheck disable=SC2086 # the words are meant to be split
if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get update ||
    ! $as_root env DEBIAN_FRONTEND=noninteractive $install; then
    echo "deps: apt-get failed; run as root:" >&2
    echo "$install"
    exit 2
fi
