#!/usr/bin/env python3
"""Wheels of the Python package for manylinux_2_28, x86_64 and aarch64, that need nothing installed.

    make wheels          or: packaging/wheels.py [--no-try] [PROCESSOR...]

One source distribution is made, and each wheel from it, by `zig cc` (PyPI: ziglang) against the
glibc 2.28 that it knows. SQLite is linked in, from the source in the Go module that bench/go/lango
pins; libpq and libcurl are loaded when they are used, and only their headers are needed here.
auditwheel checks what a wheel needs and names it. Then each wheel is installed and tried in a
Debian with Python and nothing else, made by debootstrap; that of another processor runs under qemu.
Everything lies in build/wheels. What cannot run is named, with exit code 77."""

import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bindings" / "python"
HOME = ROOT / "build" / "wheels"
PINNED = ROOT / "packaging" / "wheels.txt"
SKIP = 77
GLIBC = "2.28"
PLATFORM = "manylinux_2_28"
SUITE = "bookworm"  # of the Debian in which wheels are tried: its Python is 3.11
PYTHON = "3.11"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# As Debian builds its SQLite, as far as the library and its importers use it. Without HAVE_USLEEP
# a wait for another writer takes whole seconds.
SQLITE = (
    "-DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_FTS5 -DSQLITE_SECURE_DELETE -DSQLITE_USE_URI"
    " -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_MATH_FUNCTIONS"
    " -DSQLITE_MAX_VARIABLE_NUMBER=250000 -DSQLITE_OMIT_LOAD_EXTENSION -DHAVE_USLEEP=1"
    " -DHAVE_FDATASYNC=1 -DHAVE_GMTIME_R=1 -DHAVE_LOCALTIME_R=1"
).split()
LIBPQ_HEADERS = ("libpq-fe.h", "postgres_ext.h", "pg_config_ext.h")

sys.path.insert(0, str(ROOT / "tests" / "cross"))
import zig  # noqa: E402  # where SQLite's source comes from


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(SKIP)


def must(command, **more):
    """Run a command; its output is shown when it fails."""
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        **more
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise SystemExit(f"{text}\nfailed: {' '.join(map(str, command))}")
    return text


def tools():
    """An environment with what is pinned; gives its Python."""
    folder = HOME / "tools"
    python = folder / "bin" / "python"
    stamp = folder / "pinned"
    pinned = PINNED.read_text(encoding="utf-8") + sys.version
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != pinned:
        shutil.rmtree(folder, ignore_errors=True)
        must([sys.executable, "-m", "venv", folder])
        command = [python, "-m", "pip", "install", "--quiet", "-r", PINNED]
        if subprocess.run(list(map(str, command)), check=False).returncode != 0:
            skip("pip cannot install packaging/wheels.txt: no registry")
        stamp.write_text(pinned, encoding="utf-8")
    return python


def headers():
    """The headers of Python, libpq and libcurl, apart from those of this machine's C library."""
    folder = HOME / "include"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sysconfig.get_path("include"), folder / "python")
    config = folder / "python" / "pyconfig.h"
    if "pyconfig.h>" in config.read_text(encoding="utf-8"):  # Debian's names one a processor
        multiarch = sysconfig.get_config_var("MULTIARCH")
        place = pathlib.Path("/usr/include") / multiarch / config.parent.parent.name
        version = f"python{sysconfig.get_python_version()}"
        shutil.copy(place.parent / version / "pyconfig.h", config)
    (folder / "libpq").mkdir()
    for name in LIBPQ_HEADERS:
        shutil.copy(pathlib.Path("/usr/include/postgresql") / name, folder / "libpq")
    for place in sorted(pathlib.Path("/usr/include").glob("**/curl/curl.h")):
        shutil.copytree(place.parent, folder / "libcurl" / "curl", dirs_exist_ok=True)
    return folder


def source_distribution(python):
    """The archive that users get, too; gives its unpacked folder."""
    out = HOME / "sdist"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    code = f"import backend; print(backend.build_sdist({str(out)!r}))"
    must([python, "-c", code], cwd=PACKAGE)
    (archive,) = out.glob("*.tar.gz")
    source = HOME / "source"
    unpack(archive, source)
    print(f"[       OK ] {archive.name}", flush=True)
    return source


def unpack(archive, folder):
    """Make a folder what an archive holds. All files of the archive have one time, so that a build
    would not notice what changed: only files with other bytes are written."""
    kept = set()
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            path = folder / member.name.partition("/")[2]
            if member.isfile():
                kept.add(path)
                text = opened.extractfile(member).read()
                if not path.exists() or path.read_bytes() != text:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(text)
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def compiler(python, processor):
    """Programs that act as cc, ar and ranlib for a processor."""
    folder = HOME / processor / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    where = "import os, ziglang; print(os.path.dirname(ziglang.__file__))"
    program = pathlib.Path(must([python, "-c", where]).strip()) / "zig"
    target = f"{processor}-linux-gnu.{GLIBC}"
    made = {"cc": f"cc -target {target} -fno-sanitize=undefined", "ar": "ar", "ranlib": "ranlib"}
    return {
        name: script(folder / name, f'exec "{program}" {words} "$@"')
        for name, words in made.items()
    }


def sqlite(programs, processor):
    """SQLite as an archive whose functions a library does not show; gives a folder with it."""
    source = zig.sqlite_source()
    if source is None:
        skip(f"no Go module {zig.DRIVER} for SQLite's source")
    folder = HOME / processor / source.name.replace("@", "-")
    archive = folder / "libsqlite3.a"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / "sqlite3-binding.h", folder / "sqlite3.h")
        made = folder / "sqlite3.o"
        must([programs["cc"], "-O2", "-fPIC", "-fvisibility=hidden", "-w", *SQLITE,
              "-c", source / "sqlite3-binding.c", "-o", made])
        must([programs["ar"], "rcs", archive, made])
    return folder


def build(python, source, processor):
    """A wheel as it is built; gives its path."""
    programs = compiler(python, processor)
    library = sqlite(programs, processor)
    include = HOME / "include"
    defines = {
        "CMAKE_C_COMPILER": programs["cc"],
        "CMAKE_AR": programs["ar"],
        "CMAKE_RANLIB": programs["ranlib"],
        "CMAKE_SHARED_LINKER_FLAGS": "-s",
        "CMAKE_MODULE_LINKER_FLAGS": "-s",
        "CMAKE_EXE_LINKER_FLAGS": "-s",
        "SQLite3_INCLUDE_DIR": library,
        "SQLite3_LIBRARY": library / "libsqlite3.a",
        "Python_INCLUDE_DIR": include / "python",
        "CURL_NO_CURL_CMAKE": "ON",
        "CURL_INCLUDE_DIR": include / "libcurl",
        "CURL_LIBRARY": "loaded-when-it-is-used",
        "QUIPU_LIBPQ_INCLUDE": include / "libpq",
        "QUIPU_LIBPQ": "loaded-when-it-is-used",
    }
    out = HOME / processor / "built"
    shutil.rmtree(out, ignore_errors=True)
    settings = [f"--config-settings=cmake.define.{name}={value}" for name, value in defines.items()]
    settings += [f"--config-settings=build-dir={HOME / processor / 'build'}",
                 "--config-settings=install.strip=false"]
    environment = {
        **os.environ,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "ZIG_GLOBAL_CACHE_DIR": str(HOME / "cache"),
        "ZIG_LOCAL_CACHE_DIR": str(HOME / "cache"),
        "_PYTHON_HOST_PLATFORM": f"linux-{processor}",
    }
    must([python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
          "-w", out, *settings, source], env=environment)
    (wheel,) = out.glob("*.whl")
    return wheel


def check(python, wheel, processor):
    """auditwheel's opinion: no library that a manylinux_2_28 lacks. It gives the wheel its name."""
    out = HOME / "dist"
    out.mkdir(exist_ok=True)
    for old in out.glob(f"*{processor}.whl"):
        old.unlink()
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    must([python, "-m", "auditwheel", "repair", "--plat", "auto", "-w", out, wheel],
         env={**os.environ, "PATH": path})
    (done,) = out.glob(f"*{processor}.whl")
    if f"{PLATFORM}_{processor}" not in done.name:
        raise SystemExit(f"{done.name}: auditwheel finds that it is not for {PLATFORM}")
    grafted = must([sys.executable, "-m", "zipfile", "-l", done])
    if ".libs/" in grafted:
        raise SystemExit(f"{done.name}: auditwheel put a library of this machine into it")
    print(f"[       OK ] {done.name}, {done.stat().st_size >> 10} KB", flush=True)
    return done


def debian(processor):
    """A Debian with Python: made whole on this processor, else unpacked only."""
    folder = HOME / processor / SUITE
    if (folder / "ready").exists():
        return folder
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        skip("a wheel is tried in a Debian of its own, which needs root and debootstrap")
    shutil.rmtree(folder, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv",
               f"--arch={DEBIAN[processor]}"]
    native = processor == platform.machine()
    if not native:
        command.append("--foreign")
    done = subprocess.run([*command, SUITE, str(folder)], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        skip(f"debootstrap cannot make a {SUITE} for {processor}: no mirror")
    if not native:
        for package in sorted((folder / "var/cache/apt/archives").glob("*.deb")):
            must(["dpkg-deb", "-x", package, folder])
    (folder / "ready").touch()
    return folder


def dependencies(python, processor):
    """What the package needs from PyPI: cffi, as a wheel."""
    out = HOME / processor / "needs"
    if not out.exists():
        command = [python, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "-d", out,
                   f"--python-version={PYTHON}", f"--platform={PLATFORM}_{processor}",
                   f"--platform=manylinux_2_17_{processor}", "cffi>=1.16"]
        if subprocess.run(list(map(str, command)), check=False).returncode != 0:
            skip("pip cannot download cffi: no registry")
    return out


def attempt(python, wheel, processor):
    """Install the wheel where nothing else is, and use it."""
    folder = debian(processor)
    place = folder / "try"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(dependencies(python, processor), place / "wheels")
    shutil.copy(wheel, place / "wheels")
    shutil.copy(ROOT / "packaging" / "try_wheel.py", place)
    inside = ["chroot", folder]
    if processor == platform.machine():
        pip = "/try/venv/bin/pip"
        must([*inside, "python3", "-m", "venv", "/try/venv"])
        must([*inside, pip, "install", "--no-index", "--find-links=/try/wheels", "quipu-store"])
        words = ["/try/venv/bin/python"]
    else:
        emulator = shutil.which(f"qemu-{processor}-static")
        if emulator is None:
            skip(f"no qemu-{processor}-static: the wheel for {processor} is built and not run")
        shutil.copy(emulator, folder / "emulator")
        # Programs that it starts would need the kernel's help, so that pip runs here.
        must([python, "-m", "pip", "install", "--quiet", "--no-index", "--only-binary=:all:",
              f"--find-links={place / 'wheels'}", f"--python-version={PYTHON}",
              f"--platform={PLATFORM}_{processor}", f"--platform=manylinux_2_17_{processor}",
              f"--target={place / 'site'}", "quipu-store"])
        words = ["/emulator", "-E", "PYTHONPATH=/try/site", f"/usr/bin/python{PYTHON}"]
    print(must([*inside, *words, "/try/try_wheel.py", "/try"]), end="")
    program = place / ("venv/bin/quipu" if processor == platform.machine() else "site/bin/quipu")
    said = must([*inside, *words[:-3], f"/{program.relative_to(folder)}", "show",
                 "--store", "/try/store.db", "chat"])
    if "hello penguin" not in said:
        raise SystemExit(f"quipu show: {said}")
    print(f"[       OK ] the_program_shows_what_the_package_wrote_on_{processor}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("processors", nargs="*", metavar="PROCESSOR", help=" or ".join(DEBIAN))
    parser.add_argument("--no-try", action="store_true", help="build and check only")
    args = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    python = tools()
    headers()
    source = source_distribution(python)
    wanted = args.processors or list(DEBIAN)
    wheels = {}
    for one in wanted:
        wheels[one] = check(python, build(python, source, one), one)
    for processor, wheel in wheels.items():
        if not args.no_try:
            attempt(python, wheel, processor)


if __name__ == "__main__":
    main()
