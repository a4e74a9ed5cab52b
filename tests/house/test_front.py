#!/usr/bin/env python3
"""The front door: tools/run.sh runs the job in a fresh folder, .ci/run forbids skips."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, path, body):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        target.chmod(0o755)
        return target


class Run(Scratch):
    def run_job(self, body):
        job = self.script("job", body)
        return subprocess.run(
            [str(ROOT / "tools/run.sh"), str(job)], capture_output=True, text=True, check=False
        )

    def test_job_gets_an_empty_folder_that_is_gone_afterwards(self):
        result = self.run_job("ls -A; pwd; echo x >file")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 1)
        self.assertFalse(pathlib.Path(result.stdout.strip()).exists())

    def test_exit_code_is_the_jobs(self):
        self.assertEqual(self.run_job("exit 3").returncode, 3)


class Ci(Scratch):
    def ci(self, **more):
        tree = self.folder / "tree"
        (tree / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci/run", tree / ".ci/run")
        self.script("bin/make", 'echo "make $* ${QUIPU_REQUIRE_ALL:-unset}"')
        env = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        env.pop("QUIPU_REQUIRE_ALL", None)
        env.update(more)
        command = [str(tree / ".ci/run")]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    def test_a_skip_is_a_failure(self):
        self.assertEqual(self.ci(), "make test 1\n")

    def test_the_environment_cannot_allow_skips(self):
        self.assertEqual(self.ci(QUIPU_REQUIRE_ALL="0"), "make test 1\n")


if __name__ == "__main__":
    unittest.main()
