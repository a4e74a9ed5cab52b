#!/usr/bin/env python3
"""make deb: the Debian packages of packaging/debian/packages.ini out of a build.

    deb.py BUILD OUT    install BUILD's components into package trees, write OUT/*.deb

The trees are what `cmake --install --component` puts there, stripped, with compressed manual pages,
copyright and changelog; dependencies come from dpkg-shlibdeps. The same build gives the same bytes:
times are those of the last commit."""

import argparse
import configparser
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = ROOT / "packaging" / "debian"
MAINTAINER = "The quipu authors <quipu@example.invalid>"


def output(*command, **more):
    """What a command prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          **more)
    if done.returncode != 0:
        sys.exit(f"deb: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def version():
    """The library's, as its header says it."""
    text = (ROOT / "include/quipu/base.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"#define QUIPU_VERSION_{part} (\d+)", text)[1]
                    for part in ("MAJOR", "MINOR", "PATCH"))


def build_time():
    """The time in all files: the last commit's, or the changelog's outside of a repository."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    if done.returncode == 0:
        return int(done.stdout)
    return int((ROOT / "CHANGELOG.md").stat().st_mtime)


def put(path, data, mode=0o644):
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def compress(path):
    """Replace a file by its compressed form, without a time in it."""
    put(path.with_name(path.name + ".gz"), gzip.compress(path.read_bytes(), 9, mtime=0))
    path.unlink()


def is_binary(path):
    """Whether a file is a program or a shared library."""
    return path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"


def install(build, component, tree):
    """A component's files, as `make install` with the prefix /usr would put them."""
    output("cmake", "--install", build, "--component", component, "--prefix", "/usr", "--strip",
           env={**os.environ, "DESTDIR": str(tree)})
    for page in sorted(tree.glob("usr/share/man/man*/*")):
        compress(page)


def add_server(tree):
    """What runs the server for good."""
    systemd = ROOT / "packaging/systemd"
    put(tree / "usr/lib/systemd/system/quipu.service", (systemd / "quipu.service").read_bytes())
    put(tree / "usr/lib/sysusers.d/quipu.conf", (systemd / "quipu.sysusers").read_bytes())
    put(tree / "etc/default/quipu-server", (HERE / "quipu-server.default").read_bytes())


def add_papers(tree, name):
    """Licence, notice and changelog, as Debian wants them."""
    papers = tree / "usr/share/doc" / name
    put(papers / "copyright", (HERE / "copyright").read_bytes())
    put(papers / "NOTICE", (ROOT / "NOTICE").read_bytes())
    put(papers / "changelog", (ROOT / "CHANGELOG.md").read_bytes())
    compress(papers / "changelog")


def shared_names(tree):
    """The sonames of a tree's shared libraries."""
    names = []
    for path in sorted(tree.rglob("*.so.*")):
        if is_binary(path):
            found = re.search(r"SONAME\s+(\S+)", output("objdump", "-p", path))
            names.append(found[1])
    return names


def needed(tree, folders, own):
    """The dependencies of a tree's binaries; `own` has the lines for our libraries."""
    binaries = [path for path in sorted(tree.rglob("*")) if is_binary(path)]
    if not binaries:
        return []
    with tempfile.TemporaryDirectory(prefix="quipu-deb-") as name:
        work = pathlib.Path(name)
        put(work / "debian/control", b"Source: quipu\n\nPackage: quipu\nArchitecture: any\n")
        put(work / "debian/shlibs.local", own.encode())
        paths = [f"-l{folder}" for folder in folders]
        text = output("dpkg-shlibdeps", "-O", *paths, *binaries, cwd=work)
    return text.removeprefix("shlibs:Depends=").split(", ")


def control(name, about, tree, depends):
    """The control file."""
    fields = {
        "Package": name, "Version": version(), "Section": about["section"],
        "Priority": "optional", "Architecture": output("dpkg", "--print-architecture"),
        "Maintainer": MAINTAINER,
        "Installed-Size": str(sum(path.lstat().st_size for path in tree.rglob("*")
                                  if path.is_file()) // 1024 + 1),
        "Depends": ", ".join(sorted(depends)),
    }
    for field in ("recommends", "suggests"):
        fields[field.capitalize()] = about.get(field, "").format(version=version())
    text = about["text"].replace("\n", "\n ")
    lines = [f"{field}: {value}" for field, value in fields.items() if value]
    return "\n".join([*lines, f"Description: {about['summary']}", f" {text}", ""])


def seal(tree, name, about, depends):
    """The control folder: fields, sums, scripts, triggers; and one time for everything."""
    meta = tree / "DEBIAN"
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"
                   for path in files)
    put(meta / "control", control(name, about, tree, depends).encode())
    put(meta / "md5sums", sums.encode())
    if (configured := [f"/{path.relative_to(tree)}\n" for path in files
                       if path.is_relative_to(tree / "etc")]):
        put(meta / "conffiles", "".join(configured).encode())
    for script in ("postinst", "prerm"):
        if (HERE / f"{name}.{script}").exists():
            put(meta / script, (HERE / f"{name}.{script}").read_bytes(), 0o755)
    if shared_names(tree):
        put(meta / "triggers", b"activate-noawait ldconfig\n")
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (build_time(), build_time()), follow_symlinks=False)


def make(build, out):
    """All packages; gives their paths."""
    packages = configparser.ConfigParser()
    packages.read(HERE / "packages.ini", encoding="utf-8")
    out.mkdir(parents=True, exist_ok=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="quipu-deb-") as name:
        trees = {package: pathlib.Path(name, package) for package in packages.sections()}
        for package, tree in trees.items():
            install(build, packages[package]["component"], tree)
            if package == "quipu-server":
                add_server(tree)
            add_papers(tree, package)
        own = "".join(
            f"{library} {soname} {package} (= {version()})\n"
            for package, tree in trees.items() for library, soname in
            (name.split(".so.") for name in shared_names(tree)))
        folders = {path.parent for tree in trees.values() for path in tree.rglob("*.so.*")}
        for package, tree in trees.items():
            stated = packages[package]["depends"].format(version=version())
            depends = {one for one in stated.split(", ") if one}
            depends |= set(needed(tree, folders, own)) - {f"{package} (= {version()})"}
            seal(tree, package, packages[package], depends)
            made.append(out / f"{package}_{version()}_{output('dpkg', '--print-architecture')}.deb")
            output("dpkg-deb", "--root-owner-group", "--build", tree, made[-1],
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(build_time())})
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    for tool in ("dpkg-deb", "dpkg-shlibdeps", "cmake", "objdump"):
        if shutil.which(tool) is None:
            sys.exit(f"deb: {tool} is missing: tools/deps.sh deb installs it")
    for path in make(args.build.resolve(), args.out):
        print(path)


if __name__ == "__main__":
    main()
