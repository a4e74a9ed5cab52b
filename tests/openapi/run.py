#!/usr/bin/env python3
"""The served OpenAPI document against the server itself, by schemathesis: requests that keep to the
document and requests that do not; status, type and body of each answer must be what it says.

    run.py    make the environment, run the test

The environment lies in $QUIPU_BINARY_DIR/openapi and is kept until the pinned version changes.
Where pip cannot install, the test is skipped. QUIPU_LONG=1 runs the long form."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "openapi"
SKIP = 77
LONG = os.environ.get("QUIPU_LONG") == "1"
EXAMPLES = 200 if LONG else 5
LIMIT_S = 3000 if LONG else 300

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import server  # pylint: disable=wrong-import-position


def environment():
    """A virtual environment with the pinned package; gives its program."""
    build = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build" / "debug")).resolve()
    folder = build / "openapi"
    stamp = folder / "pinned"
    wanted = HERE / "requirements.txt"
    pinned = hashlib.sha256(sys.version.encode() + wanted.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != pinned:
        shutil.rmtree(folder, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", folder],
                        [folder / "bin" / "pip", "install", "--quiet", "-r", wanted]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(done.stdout[-2000:], done.stderr[-2000:])
                print("SKIP: the OpenAPI document: pip cannot install schemathesis: no registry")
                sys.exit(SKIP)
        stamp.write_text(pinned, encoding="utf-8")
    return folder / "bin" / "schemathesis"


class Document(server.Case):
    """The document and the server say the same."""

    program = None

    def test_no_request_that_the_document_leads_to_is_answered_otherwise(self):
        self.serve()
        self.append("0", server.message("e"))
        done = subprocess.run(
            [self.program, "--config-file", HERE / "schemathesis.toml", "run",
             f"{self.address}/openapi.json", "--header", f"Authorization: Bearer {self.token}",
             "--exclude-path", "/v1/sessions/{key}/tail",  # it does not end
             "--exclude-path-regex", "^/run(_sse)?$",  # answered with 501
             "--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1",
             "--generation-database", "none", "--no-color"],
            capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])
        self.assertIsNone(self.process.poll())
        self.good("GET", "/readyz")
        self.stop()
        self.assertEqual(self.run_quipu("verify", "--json").json()["problems"], [])


if __name__ == "__main__":
    Document.program = environment()
    unittest.main(verbosity=2)
