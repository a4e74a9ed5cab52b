#!/usr/bin/env python3
"""The version matrix: the library of every commit that wrote an earlier layout, built from this
repository, against the one that build/debug holds. For each of them:

  forward   it writes a file; the current library reads it and changes no byte; then upgrades it,
            finds the same messages, and verify reports nothing
  back      it reads the upgraded file, and reads or refuses a file that the current library made;
            it appends only where the file's min_writer lets it, and verify stays clean; a refusal
            says that the file is newer, and changes nothing

A row is the last commit that has a version of schema/quipu.ent. A version of that file without a
row is a failure: whoever changes the schema adds the row of the commit before.

usage: run.py [COMMIT...]    only these rows"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "versions"
NOW = ROOT / "build" / "debug"
DRIVER = pathlib.Path(__file__).with_name("driver.c")
SCHEMA = "schema/quipu.ent"
CHECKSUMS = 3  # the first version of the schema that writes page checksums
SKIP = 77

# The commit, the form of its API (driver.c), the version of its schema, and what came after it.
ROWS = (
    ("97fe72c", 1, 1, "turn_seq"),
    ("cde714b", 1, 1, "feed"),
    ("f0d1dbe", 1, 1, "full text, lags"),
    ("78d64b6", 1, 1, "state_events"),
    ("9d9f59e", 2, 1, "model_factors"),
    ("2d3a22c", 2, 1, "shards of PostgreSQL"),
    ("ab06d1d", 2, 1, "names of fields"),
    ("84e9f39", 3, 1, "classes and views"),
    ("3ae32c4", 3, 1, "title, first_words"),
    ("4fbd3e9", 3, 1, "min_writer 2"),
    ("985549f", 3, 2, "page checksums"),
)


# Versions of the schema that no library wrote: the store did not compile yet.
UNWRITTEN = ("6f89eb4",)


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout.strip()


def run(command, **more):
    """A command's exit code and output."""
    done = subprocess.run([str(part) for part in command], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    return done.returncode, done.stdout


def must(command, **more):
    code, out = run(command, **more)
    if code != 0:
        raise AssertionError(f"{' '.join(str(part) for part in command)}: exit {code}\n{out}")
    return out


def uncovered():
    """Versions of the schema that no row wrote: "commit subject" each."""
    listed = [row[0] for row in ROWS] + list(UNWRITTEN)
    covered = {git("rev-parse", f"{commit}:{SCHEMA}") for commit in listed}
    covered.add(git("hash-object", SCHEMA))
    changes = git("log", "--format=%h %s", "--", SCHEMA).splitlines()
    return [change for change in changes
            if git("rev-parse", f"{change.split()[0]}:{SCHEMA}") not in covered]


def make_driver(include, library, api, path):
    """Commits of the first form do not export the store from the shared library yet."""
    linked = ([library / "libquipu.a", "-lsqlite3", "-lm", "-pthread"] if api == 1 else
              [f"-L{library}", "-lquipu", f"-Wl,-rpath,{library}"])
    must(["gcc", "-std=gnu11", "-O1", f"-DDRIVER_API={api}", f"-I{include}", DRIVER, "-o", path,
          *linked])
    return path


def build(commit, api):
    """The driver of a commit; what was built before is used again."""
    folder = BUILD / commit
    driver = folder / f"driver-{hashlib.sha256(DRIVER.read_bytes()).hexdigest()[:12]}"
    if driver.exists():
        return driver
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE) as archive:
        must(["tar", "-x", "-C", source], stdin=archive.stdout)
    must(["cmake", "-S", source, "-B", folder / "build", "-G", "Ninja", "-DQUIPU_TESTS=OFF",
          "-DCMAKE_BUILD_TYPE=Debug"])
    must(["cmake", "--build", folder / "build", "--target",
          "quipu_static" if api == 1 else "quipu"])
    return make_driver(source / "include", folder / "build", api, driver)


class Row:
    """One earlier library, and the current one, on files of both."""

    def __init__(self, old, now, version, folder):
        self.old, self.now, self.version, self.folder = old, now, version, folder
        self.quipu = NOW / "bin" / "quipu"

    def same(self, what, found, expected):
        if found != expected:
            raise AssertionError(f"{what}:\n{found}\nexpected:\n{expected}")

    def sound(self, path, *words):
        """The current program finds no problem, and each of the words."""
        must([self.quipu, "verify", "--store", path])
        for word in words:
            if "travel" not in must([self.quipu, "search", "--store", path, word]):
                raise AssertionError(f"search does not find {word}")

    def refused(self, code, out):
        """Whether the old library said no in the words for it."""
        if code != 0 and not out.startswith("NEWER "):
            raise AssertionError(f"the earlier library fails otherwise:\n{out}")
        return code != 0

    def back(self, path, text, may_write):
        """The old library on a file that it did not leave like that. Gives what it could do."""
        code, out = run([self.old, "read", path])
        reads = not self.refused(code, out)
        if reads:
            self.same("the earlier library reads", out, text)
        code, out = run([self.old, "append", path, "from before"])
        writes = not self.refused(code, out)
        if writes != may_write:
            raise AssertionError(f"the earlier library {'writes' if writes else 'is refused'}")
        if writes:
            text = text.removesuffix("ok\n") + "1 from before\nok\n"
        self.same("the current library reads", must([self.now, "read", path]), text)
        self.sound(path, "Cusco", *(["before"] if writes else []))
        can = f"{'reads' if reads else 'does not read'}, {'writes' if writes else 'no write'}"
        return can, text

    def check(self):
        path = self.folder / "old.db"
        text = must([self.old, "write", path]) and must([self.old, "read", path])
        before = path.read_bytes()
        self.same("the current library reads", must([self.now, "read", path]), text)
        self.same("bytes after a read", path.read_bytes() == before, True)
        must([self.quipu, "upgrade", "--store", path])
        self.same("after the upgrade", must([self.now, "read", path]), text)
        self.sound(path, "Cusco")
        upgraded, text = self.back(path, text, self.version >= 2)
        must([self.quipu, "upgrade", "--checksums", "--store", path])
        self.same("with checksums", must([self.now, "read", path]), text)
        sealed, _ = self.back(path, text, self.version >= CHECKSUMS)
        made = self.folder / "new.db"
        must([self.now, "write", made])
        new, _ = self.back(made, must([self.now, "read", made]), self.version >= CHECKSUMS)
        return f"upgraded: {upgraded}; with checksums: {sealed}; a new file: {new}"


def main():
    if not (ROOT / ".git").exists():
        print("SKIP: no repository, so that earlier commits cannot be built")
        return SKIP
    chosen = [row for row in ROWS if len(sys.argv) < 2 or row[0] in sys.argv[1:]]
    failed = [f"no row for the schema of {change}" for change in uncovered()]
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        now = make_driver(ROOT / "include", NOW, 3, folder / "now")
        for commit, api, version, after in chosen:
            place = folder / commit
            place.mkdir()
            try:
                done = Row(build(commit, api), now, version, place).check()
                print(f"{commit} (then: {after}): {done}", flush=True)
            except AssertionError as error:
                failed.append(f"{commit} (then: {after}): {error}")
                print(failed[-1], flush=True)
    for line in failed:
        print(f"failed: {line}")
    print(f"versions: {len(chosen)} rows, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
