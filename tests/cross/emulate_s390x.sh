#!/bin/sh
# Run a program for s390x with the libraries that it was linked with.
# usage: emulate_s390x.sh PROGRAM [ARGUMENT]...
exec qemu-s390x-static -L /usr/s390x-linux-gnu "$@"
