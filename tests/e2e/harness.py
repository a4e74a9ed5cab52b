"""Shared by the tests of the program: running it in a pipe and in a pseudo-terminal, each in its
own folder with a clean environment, and stores to read."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
WAIT_S = 60  # a test that waits longer has failed


def program():
    """The built program, from $QUIPU_BINARY_DIR."""
    build = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build" / "debug"))
    # The release puts its programs beside its folder.
    path = build.parent / "quipu" if build.name == "release" else build / "bin" / "quipu"
    if not path.exists():
        sys.exit(f"no {path}: build it, or set QUIPU_BINARY_DIR")
    return str(path)


class Result:
    """The result of a run: exit code, stdout and stderr as text (bytes in raw_out)."""

    def __init__(self, code, out, err):
        self.code = code
        self.raw_out = out
        self.out = out.decode("utf-8", "surrogateescape")
        self.err = err.decode("utf-8", "surrogateescape")

    def json(self):
        """The one JSON value of stdout."""
        return json.loads(self.out)

    def lines(self):
        """The JSON values of stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def open_pty():
    """Both ends of a new pseudo-terminal. Where the system has none the test that asks is skipped,
    so that the summary names it."""
    try:
        return os.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"needs a terminal, and no pty opens: {error}") from error


class Terminal:
    """A program in a pseudo-terminal. Its stdin, stdout and stderr are the terminal."""

    def __init__(self, command, env, columns=80, rows=24):
        self.out = b""
        self.code = None
        for end in open_pty():  # a later failure of pty.fork() is an error, not a skip
            os.close(end)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(command[0], command, env)

    def read(self, seconds=0.2):
        """Read what has arrived; False at the end."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        self.out += data
        return data != b""

    def expect(self, text, after=""):
        """Read until the text has appeared; `after` has appeared before, and stands before it."""
        end = time.monotonic() + WAIT_S
        wanted = text.encode()
        while self.out.find(wanted, max(self.out.find(after.encode()), 0)) < 0:
            if not self.read() or time.monotonic() > end:
                raise AssertionError(f"no {text!r} on the terminal: {self.out!r}")

    def send(self, text):
        """Type a text."""
        os.write(self.fd, text.encode())

    def signal(self, number):
        """Send a signal to the program."""
        os.kill(self.pid, number)

    def finish(self):
        """Wait for the end; returns the whole text without carriage returns."""
        end = time.monotonic() + WAIT_S
        while self.read():
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"it does not end: {self.out!r}")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.code = os.waitstatus_to_exitcode(status)
        return self.text()

    def text(self):
        """The text so far."""
        return self.out.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


class Case(unittest.TestCase):
    """A test with a folder of its own; `self.store` is the store that verbs use by default."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quipu-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.store = self.folder / "store.db"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "QUIPU_STORE": str(self.store),
            "TERM": "xterm",
            "PAGER": "",  # tests that want one say so
            "TMPDIR": str(self.folder),
        }
        # A run inherits the settings of the sanitizers only.
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def run_quipu(self, *args, code=0, stdin=b"", env=None):
        """Run with pipes; the exit code must be `code` (None: any)."""
        if isinstance(stdin, str):
            stdin = stdin.encode("utf-8", "surrogateescape")
        command = [program(), *map(os.fsencode, map(str, args))]
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=WAIT_S, check=False,
            env={**self.env, **(env or {})},
        )
        result = Result(done.returncode, done.stdout, done.stderr)
        if code is not None:
            self.assertEqual(result.code, code, f"{args}: {result.out!r} {result.err!r}")
        return result

    def start_quipu(self, *args, **pipes):
        """Start it and leave it running: a Popen with pipes, killed at the end of the test."""
        ends = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        process = subprocess.Popen(
            [program(), *map(str, args)], env=self.env, **{**ends, **pipes}
        )
        self.addCleanup(self._end, process)
        return process

    def read_line(self, process):
        """The next line of a started process; fails when there is none."""
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], WAIT_S)
            self.assertTrue(ready, f"no line came: {line!r}")
            byte = os.read(process.stdout.fileno(), 1)
            self.assertTrue(byte, f"it ended: {line!r}")
            line += byte
        return line.decode()

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def terminal(self, *args, columns=80, env=None):
        """Start it in a pseudo-terminal."""
        return Terminal(
            [program(), *map(str, args)], {**self.env, **(env or {})}, columns=columns
        )

    def run_terminal(self, *args, code=0, columns=80, env=None):
        """Run it in a pseudo-terminal to its end; returns the text."""
        terminal = self.terminal(*args, columns=columns, env=env)
        text = terminal.finish()
        if code is not None:
            self.assertEqual(terminal.code, code, f"{args}: {text!r}")
        return text

    def assert_harmless(self, text, colours=False):
        """Only text, newlines and the program's own colours reached the terminal."""
        if colours:
            text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        bad = [c for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0
               or 0xDC80 <= ord(c) < 0xDD00 or ord(c) in HARMFUL]
        self.assertEqual(bad, [], repr(text))


HARMFUL = {0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2061, 0x2070),
           *range(0xE0000, 0xE0080)}


def tokens(text):
    """The store's estimate, rule 1, for texts without CJK."""
    return len(text) // 4


def uuid(number):
    """A UUID that is the same in every run."""
    return f"01890000-0000-7000-8000-{number:012x}"


def instant(seconds):
    """A time, in seconds after the morning of a fixed day."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1774000000 + seconds))


def export_lines(sessions):
    """An export of {key: [message, ...]}; a message is a dict with at least role and content.
    `quipu import` creates the same store from it in every run."""
    yield {"quipu": "export", "major": 1, "minor": 0}
    count = 0
    for number, (key, messages) in enumerate(sessions.items(), 1):
        sums = [tokens(message["content"]) for message in messages]
        yield {
            "type": "session", "uid": uuid(number), "key": key, "session_id": key,
            "created_at": instant(0), "updated_at": instant(number),
            "revision": len(messages) + 1, "first_seq": 1, "next_seq": len(messages) + 1,
            "message_count": len(messages), "token_count": sum(sums), "token_rule": 1,
        }
        total = 0
        for seq, message in enumerate(messages, 1):
            count += 1
            total += sums[seq - 1]
            yield {
                "type": "message", "timestamp": instant(seq), "seq": seq,
                "event_id": uuid(number << 24 | seq), "tokens": sums[seq - 1],
                "tokens_total": total, **message,
            }
    yield {"type": "end", "sessions": len(sessions), "messages": count, "states": 0, "memories": 0}


def make_store(case, sessions):
    """Fill the test's store with {key: [message, ...]}."""
    lines = "".join(json.dumps(line) + "\n" for line in export_lines(sessions))
    return case.run_quipu("import", "-", "--quiet", stdin=lines)


def main():
    """Run the tests of the file that calls it."""
    unittest.main(verbosity=2)
