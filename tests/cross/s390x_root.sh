#!/usr/bin/env bash
# The libraries that the tests link, for s390x: Debian's own packages, unpacked into a folder. They
# are not installed, because Debian's updates of the C library no longer come for s390x, and a
# package of two architectures must have one version. Nothing outside of the folder changes: apt
# keeps its lists there. Exit code 77: the packages cannot be fetched.
# usage: s390x_root.sh FOLDER
set -eu
folder=$1
packages="libsqlite3-0 libsqlite3-dev libcmocka0 libcmocka-dev libjansson4 libjansson-dev"
if [ -e "$folder/ready" ]; then
    exit 0
fi
rm -rf "$folder"
mkdir -p "$folder/debs" "$folder/apt/lists/partial"
cd "$folder/debs"
apt() {
    apt-get -o APT::Architectures::=s390x -o Dir::State::lists="$folder/apt/lists" \
        -o Dir::Cache="$folder/apt" "$@" >&2
}
# shellcheck disable=SC2046,SC2086 # the words are meant to be split
if ! apt update || ! apt download $(printf '%s:s390x ' $packages); then
    echo "SKIP: apt-get cannot download Debian's packages for s390x: $packages"
    exit 77
fi
for deb in *.deb; do
    dpkg-deb -x "$deb" "$folder"
done
touch "$folder/ready"
echo "s390x: $(ls | wc -l) packages in $folder"
