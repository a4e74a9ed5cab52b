#!/usr/bin/env python3
"""tools/deps.sh against a faked Debian: what it installs, when it asks, and when it gives up."""

import os
import pathlib
import stat
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = "apt-get install -y --no-install-recommends"


class Deps(unittest.TestCase):
    """Each test makes its own PATH with fake dpkg, apt-get, id and sudo that log their calls."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name)
        self.log = self.bin / "log"
        for tool in ("sh", "grep", "env", "echo"):
            real = subprocess.run(["which", tool], capture_output=True, text=True, check=True)
            (self.bin / tool).symlink_to(real.stdout.strip())

    def fake(self, name, body):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def debian(self, missing=(), uid=1000, sudo=None, apt="exit 0", foreign=()):
        """Everything is installed, natively and where a name says so for another architecture, but
        for `missing`; `foreign` is installed for both."""
        cases = "|".join(missing) or "none-missing"
        both = "|".join(foreign) or "none-foreign"
        log = f'echo "dpkg $*" >>{self.log}'
        self.fake("dpkg", f'[ "$1" = --print-architecture ] && echo amd64 && exit\n{log}')
        self.fake("dpkg-query", f"""shift 3
            for name do
                case "$name" in {cases}) continue ;; {both}) echo "$name:arm64 installed" ;; esac
                case "$name" in
                    *:*) echo "$name installed" ;;
                    *-cross) echo "$name:all installed" ;;
                    *) echo "$name:amd64 installed" ;;
                esac
            done""")
        self.fake("apt-get", f'echo "apt-get $*" >>{self.log}\n{apt}')
        self.fake("id", f"echo {uid}")
        if sudo is not None:
            self.fake("sudo", f'echo "sudo $*" >>{self.log}\nshift\n{sudo}')

    def deps(self, what):
        env = {"PATH": str(self.bin)}
        result = subprocess.run(
            [str(self.bin / "sh"), str(ROOT / "tools/deps.sh"), what],
            env=env, capture_output=True, text=True, check=False,
        )
        calls = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return result, calls

    def test_nothing_missing_calls_nothing(self):
        self.debian()
        for what in ("run", "bench", "test", "check", "cross", "cluster"):
            result, calls = self.deps(what)
            self.assertEqual((result.returncode, result.stdout, calls), (0, "", []))

    def test_a_package_of_two_architectures_is_not_missing(self):
        self.debian(foreign=("libc6-dev", "libsqlite3-dev"))
        for what in ("run", "bench", "cross"):
            result, calls = self.deps(what)
            self.assertEqual((result.returncode, result.stdout, calls), (0, "", []))

    def test_a_package_of_another_architecture_alone_is_missing(self):
        self.debian(missing=("libsqlite3-dev",))
        result, _ = self.deps("cross")
        self.assertEqual(result.stdout, f"{LINE} libsqlite3-dev\n")

    def test_missing_as_root_updates_then_installs_only_that(self):
        self.debian(missing=("ninja-build", "cmake"), uid=0)
        result, calls = self.deps("run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(calls, ["apt-get update", f"{LINE} cmake ninja-build"])

    def test_missing_without_root_or_sudo_prints_the_line_and_exits_2(self):
        self.debian(missing=("libcmocka-dev", "g++"))
        result, calls = self.deps("test")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, f"{LINE} g++ libcmocka-dev\n")
        self.assertEqual(calls, [])

    def test_sudo_that_wants_a_password_counts_as_none(self):
        self.debian(missing=("cmake",), sudo="exit 1")
        result, calls = self.deps("run")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, f"{LINE} cmake\n")
        self.assertEqual(calls, ["sudo -n true"])

    def test_missing_with_sudo_uses_it(self):
        self.fake("true", "exit 0")
        self.debian(missing=("cppcheck",), sudo='"$@"')
        result, calls = self.deps("check")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([call for call in calls if call.startswith("apt-get")],
                         ["apt-get update", f"{LINE} cppcheck"])

    def test_run_does_not_ask_for_the_tools_of_test(self):
        self.debian(missing=("clang-19", "python3", "libcmocka-dev", "clang-tidy-19"))
        result, calls = self.deps("run")
        self.assertEqual((result.returncode, calls), (0, []))

    def test_only_bench_asks_for_valgrind(self):
        self.debian(missing=("valgrind",))
        for what in ("run", "test", "check"):
            self.assertEqual(self.deps(what)[0].returncode, 0)
        self.assertEqual(self.deps("bench")[0].stdout, f"{LINE} valgrind\n")

    def test_cross_makes_the_other_architecture_known_first(self):
        self.debian(missing=("libsqlite3-dev:arm64",), uid=0)
        result, calls = self.deps("cross")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(calls, ["dpkg --add-architecture arm64", "apt-get update",
                                 f"{LINE} libsqlite3-dev:arm64"])

    def test_failing_apt_prints_the_line_and_exits_2(self):
        self.debian(missing=("cmake",), uid=0, apt="exit 100")
        result, _ = self.deps("run")
        self.assertEqual(result.returncode, 2)
        self.assertTrue(result.stdout.endswith(f"{LINE} cmake\n"))

    def test_without_dpkg_it_says_what_is_needed(self):
        result, _ = self.deps("run")
        self.assertEqual(result.returncode, 2)
        self.assertIn("libsqlite3-dev", result.stderr)

    def test_an_unknown_target_is_refused(self):
        self.debian()
        result, calls = self.deps("everything")
        self.assertEqual((result.returncode, calls), (2, []))


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main()
