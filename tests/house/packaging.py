#!/usr/bin/env python3
"""Packaging: the Debian packages of this build are installed into a root of their own and run, the
systemd unit is checked by systemd itself, and the container file by a few rules here.
QUIPU_LONG=1 installs the packages into a fresh Debian, too."""

import http.client
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "packaging/systemd/quipu.service"
CONTAINER = ROOT / "packaging/container/Containerfile"
EXPOSURE_MAX = 15  # tenths; systemd calls up to 4.9 OK, and a service without any limit has 9.6
WAIT_S = 120
BUILD = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build/debug"))
LONG = os.environ.get("QUIPU_LONG") == "1"
PACKAGES = ("libquipu", "libquipu-dev", "quipu", "quipu-server")


def run(*command, **more):
    """Run a command that must succeed; give what it prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          **more)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def mirror():
    """Where this machine's own packages come from."""
    found = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
                "Codename: bookworm")
    return found.splitlines()[0]


class Debian(unittest.TestCase):
    """The packages."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory(prefix="quipu-packaging-")
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = pathlib.Path(cls.home.name)
        # Not compressed: what takes long, and is dpkg's affair.
        patch = unittest.mock.patch.dict(os.environ, DPKG_DEB_COMPRESSOR_TYPE="none",
                                         SOURCE_DATE_EPOCH="1700000000")
        patch.start()
        cls.addClassCleanup(patch.stop)
        run(sys.executable, ROOT / "tools/deb.py", BUILD, cls.folder / "deb")
        cls.debs = {path.name.split("_")[0]: path for path in (cls.folder / "deb").glob("*.deb")}

    def dpkg(self, root, *args):
        """dpkg on a root of its own, whose list of installed packages began as this machine's: it
        refuses what lacks a dependency."""
        return run("dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless",
                   f"--log={root}/log", *args)

    def installed(self):
        """A root with all packages."""
        root = self.folder / self.id().rsplit(".", 1)[1]
        state = root / "var/lib/dpkg"
        for name in ("info", "updates", "triggers"):
            (state / name).mkdir(parents=True)
        (root / "etc").mkdir()
        shutil.copy("/var/lib/dpkg/status", state / "status")
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        with unittest.mock.patch.dict(os.environ, PATH=path):
            self.dpkg(root, "--install", *self.debs.values())
        return root

    def test_the_packages_are_those_that_are_named(self):
        self.assertEqual(sorted(self.debs), sorted(PACKAGES))

    def test_dependencies_are_those_of_the_binaries(self):
        fields = {name: run("dpkg-deb", "-f", path, "Depends") for name, path in self.debs.items()}
        version = run("dpkg-deb", "-f", self.debs["quipu"], "Version").strip()
        self.assertIn("libsqlite3-0", fields["libquipu"])
        self.assertIn("libc6", fields["quipu"])
        for part in ("libevent-core", f"libquipu (= {version})", f"quipu (= {version})"):
            self.assertIn(part, fields["quipu-server"])
        self.assertIn(f"libquipu (= {version})", fields["libquipu-dev"])
        self.assertNotIn("libquipu ", fields["libquipu"])

    def test_each_package_has_its_licence_and_its_manual(self):
        for name, path in self.debs.items():
            listed = run("dpkg-deb", "-c", path)
            self.assertIn(f"./usr/share/doc/{name}/copyright", listed)
            self.assertNotRegex(listed, r"\.[13]\n")  # manual pages are compressed
            self.assertNotIn("/usr/local", listed)
            for line in listed.splitlines():
                self.assertIn(" root/root ", line)
        self.assertIn("man1/quipu-serve.1.gz", run("dpkg-deb", "-c", self.debs["quipu"]))
        self.assertIn("man3/quipu.3.gz", run("dpkg-deb", "-c", self.debs["libquipu-dev"]))

    def test_no_file_is_in_two_packages(self):
        seen = {}
        for name, path in self.debs.items():
            for line in run("dpkg-deb", "-c", path).splitlines():
                place = line.split()[5]
                if not place.endswith("/"):
                    self.assertNotIn(place, seen, (name, seen.get(place)))
                    seen[place] = name

    def test_the_same_build_gives_the_same_bytes(self):
        run(sys.executable, ROOT / "tools/deb.py", BUILD, self.folder / "again")
        for path in self.debs.values():
            again = self.folder / "again" / path.name
            self.assertEqual(path.read_bytes(), again.read_bytes(), path.name)

    def test_installed_packages_serve_a_store_and_leave_with_a_remove(self):
        root = self.installed()
        self.assertIn("quipu:", (root / "etc/passwd").read_text(encoding="utf-8"))
        env = {**os.environ, "LD_LIBRARY_PATH": str(root / "usr/lib"),
               "QUIPU_STORE": str(self.folder / "served.db")}
        quipu = root / "usr/bin/quipu"
        token = run(quipu, "token", "new", env=env).strip()
        with subprocess.Popen([quipu, "serve", "--listen", "127.0.0.1:0"], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            address = server.stdout.readline().split()[-1]
            client = http.client.HTTPConnection(address.removeprefix("http://"), timeout=WAIT_S)
            client.request("GET", "/v1/sessions", headers={"Authorization": f"Bearer {token}"})
            self.assertEqual(client.getresponse().status, 200)
            client.close()
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(timeout=WAIT_S), 0)
        self.dpkg(root, "--purge", *PACKAGES)
        left = [path for path in (root / "usr").rglob("*") if not path.is_dir()]
        self.assertEqual(left, [])

    def test_a_program_builds_against_the_installed_headers(self):
        root = self.installed()
        source = self.folder / "user.c"
        source.write_text("#include <quipu/store.h>\n#include <stdio.h>\n"
                          "int main(void) { puts(quipu_version()); return 0; }\n", encoding="utf-8")
        run("gcc", "-I", root / "usr/include", source, "-L", root / "usr/lib", "-lquipu", "-o",
            self.folder / "user")
        version = run("dpkg-deb", "-f", self.debs["libquipu"], "Version").strip()
        shown = run(self.folder / "user", env={"LD_LIBRARY_PATH": str(root / "usr/lib")})
        self.assertTrue(shown.startswith(version), shown)

    if LONG:

        def test_a_fresh_debian_installs_the_packages(self):
            root = self.folder / "debian"
            run("debootstrap", "--variant=minbase", "bookworm", root, mirror())
            for path in pathlib.Path("/etc/apt/apt.conf.d").iterdir():  # a proxy, for one
                shutil.copy(path, root / "etc/apt/apt.conf.d")
            shutil.copytree(self.folder / "deb", root / "deb")
            names = [f"/deb/{path.name}" for path in self.debs.values()]
            run("chroot", root, "apt-get", "install", "-y", "--no-install-recommends", *names)
            self.assertIn("quipu", run("chroot", root, "quipu", "version"))
            self.assertIn("quipu", run("chroot", root, "getent", "passwd", "quipu"))
            run("chroot", root, "runuser", "-u", "quipu", "--", "quipu", "--store", "/tmp/s.db",
                "token", "new")


class Unit(unittest.TestCase):
    """The systemd unit."""

    def test_systemd_finds_no_fault_and_little_exposure(self):
        with tempfile.TemporaryDirectory(prefix="quipu-unit-") as folder:
            unit = pathlib.Path(folder, "quipu.service")
            text = UNIT.read_text(encoding="utf-8")
            self.assertIn("ExecStart=/usr/bin/quipu serve ", text)
            unit.write_text(text.replace("/usr/bin/quipu", "/bin/true"), encoding="utf-8")
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            run("systemd-analyze", "security", "--offline=yes", "--no-pager",
                f"--threshold={EXPOSURE_MAX}", unit)

    def test_a_stop_waits_for_the_server(self):
        header = (ROOT / "include/quipu/server.h").read_text(encoding="utf-8")
        stop_ms = int(re.search(r"#define QUIPU_SERVER_STOP_MS (\d+)", header)[1])
        waits = int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)[1])
        self.assertGreater(waits * 1000, stop_ms)


def instructions(text):
    """(name, arguments) of every instruction of a container file; lines that go on are joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def container_faults(text):
    """What is wrong with a container file, by the rules that matter for this one."""
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "STOPSIGNAL", "ENTRYPOINT",
             "CMD"}
    faults, stages, users = [], [], []
    for name, arguments in instructions(text):
        if name not in known:
            faults.append(f"{name} is not used here")
        if name == "FROM":
            image, _, stage = arguments.partition(" AS ")
            stages.append(stage)
            users = []
            if ":" not in image or image.endswith(":latest"):
                faults.append(f"{image} has no version")
        if name == "USER":
            users.append(arguments)
        is_list = re.fullmatch(r'\["[^"]+"(, "[^"]+")*\]', arguments)
        if name in ("ENTRYPOINT", "CMD") and not is_list:
            faults.append(f"{name} needs a list: a shell would get the signals")
        if name == "COPY" and (source := re.match(r"--from=(\S+)", arguments)):
            if source[1] not in stages[:-1]:
                faults.append(f"there is no stage {source[1]}")
        if name == "ENV" and re.search(r"TOKEN|PASSWORD|SECRET|KEY", arguments):
            faults.append("a secret stands in the image")
        if name == "RUN" and "apt-get install" in arguments:
            for part in ("apt-get update", " -y ", "--no-install-recommends", "/var/lib/apt/lists"):
                if part not in arguments:
                    faults.append(f"apt-get install without {part.strip()}")
        if name == "RUN" and (";" in arguments or re.search(r"\bsudo\b", arguments)):
            faults.append("RUN goes on after a failure, or as somebody else")
    if not users or users[-1] in ("root", "0"):
        faults.append("the image runs as root")
    return faults


class Container(unittest.TestCase):
    """The container file."""

    def test_the_container_file_keeps_the_rules(self):
        self.assertEqual(container_faults(CONTAINER.read_text(encoding="utf-8")), [])

    def test_what_it_runs_exists(self):
        text = CONTAINER.read_text(encoding="utf-8")
        self.assertIn("&& make deb", text)
        self.assertRegex((ROOT / "Makefile").read_text(encoding="utf-8"), r"(?m)^deb:")
        for package in re.findall(r"/tmp/deb/([\w-]+)_\*", text):
            self.assertIn(package, PACKAGES)

    def test_the_rules_find_faults(self):
        good = CONTAINER.read_text(encoding="utf-8")
        for old, new, expected in (
            ("debian:12-slim AS build", "debian AS build", "no version"),
            ("USER quipu\n", "", "root"), ("--from=build", "--from=built", "no stage"),
            ('CMD ["serve", ', 'CMD serve ["', "a list"), ("ENV ", "ENV QUIPU_TOKEN=x ", "secret"),
            ("--no-install-recommends \\\n", "\\\n", "no-install-recommends"),
            ("USER quipu", "ADD http://x /\nUSER quipu", "ADD"), ("&& make", "; make", "failure"),
        ):
            self.assertIn(old, good)
            faults = container_faults(good.replace(old, new, 1))
            self.assertTrue(any(expected in fault for fault in faults), (expected, faults))


if __name__ == "__main__":
    unittest.main()
