#!/usr/bin/env python3
"""Encrypted stores, by the program: every verb with the key, an error for each way in which key and
file do not fit, and a reader that knows docs/encryption.md alone."""

import pathlib
import secrets
import shutil
import sqlite3
import subprocess
import sys

import harness

try:
    import encrypted_file
except ImportError:
    print("SKIP: no cryptography (python3-cryptography)")
    sys.exit(77)

PLANTED = "a-text-that-no-file-may-show"
VECTORS = (  # C2SP's, of XAES-256-GCM
    (b"\1" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
    (b"\3" * 32, b"c2sp.org/XAES-256-GCM",
     "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
)


class Encryption(harness.Case):
    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(self.folder)
        self.key = secrets.token_bytes(32)
        self.keyed = {"QUIPU_KEY_FILE": self.secret("key", self.key)}
        self.store = str(self.dir / "data" / "store.db")
        (self.dir / "data").mkdir()

    def secret(self, name, data):
        """A file that only its owner reads."""
        path = self.dir / name
        path.write_bytes(data)
        path.chmod(0o600)
        return str(path)

    def q(self, *args, code=0, stdin=b"", env=None, store=None):
        return self.run_quipu(*args, "--store", store or self.store, code=code, stdin=stdin,
                              env=self.keyed if env is None else env)

    def fill(self, env=None):
        self.q("init", "--encrypt", env=env)
        lines = "".join(f'{{"role":"user","content":"{PLANTED} {i}"}}\n' for i in range(60))
        self.q("append", "one", "-", "--create", stdin=lines.encode(), env=env)

    def assert_hidden(self):
        """No file of the folder shows the text, nor a table's name."""
        for path in (self.dir / "data").iterdir():
            data = path.read_bytes()
            self.assertNotIn(PLANTED.encode(), data, path)
            self.assertNotIn(b"messages", data, path)

    def read_independently(self, secret, path=None):
        """The texts of the messages, by the reader in Python and sqlite3."""
        plain = self.dir / "plain.db"
        encrypted_file.Reader(path or self.store, secret).write(plain)
        db = sqlite3.connect(plain)
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        texts = [row[0] for row in db.execute("SELECT content FROM messages ORDER BY id")]
        db.close()
        plain.unlink()
        return texts

    def test_vectors_of_the_cipher(self):
        nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
        for key, aad, expected in VECTORS:
            derived = encrypted_file.xaes_key(key, nonce)
            sealed = encrypted_file.AESGCM(derived).encrypt(nonce[12:], b"XAES-256-GCM", aad)
            self.assertEqual(sealed.hex(), expected)

    def test_an_independent_reader_decrypts_a_store(self):
        self.fill()
        self.assert_hidden()
        texts = self.read_independently(self.key)
        self.assertEqual(texts, [f"{PLANTED} {i}" for i in range(60)])
        with self.assertRaises(encrypted_file.Damaged):
            self.read_independently(bytes(32))

    def test_an_independent_reader_decrypts_the_log(self):
        self.fill()
        self.env.update(self.keyed)
        tail = self.start_quipu("tail", "one", "-f", "--store", self.store)
        self.read_line(tail)
        text = b'{"role":"user","content":"written while another process reads"}'
        self.q("append", "one", "-", stdin=text)
        log = pathlib.Path(self.store + "-wal")
        self.assertGreater(log.stat().st_size, 0)
        self.assert_hidden()
        texts = self.read_independently(self.key)
        self.assertEqual(texts[-1], "written while another process reads")

    def test_every_verb_has_the_key(self):
        self.fill()
        copy = str(self.dir / "data" / "backup.db")
        self.assertIn(PLANTED, self.q("show", "one").out)
        self.assertIn(PLANTED, self.q("export").out)
        self.assertIn("one", self.q("ls").out)
        self.q("search", "text")
        self.q("verify")
        self.q("doctor")
        self.q("stats")
        self.q("repair")
        self.q("backup", copy)
        self.q("verify", "--against", copy)
        self.q("verify", store=copy)
        self.assert_hidden()
        self.assertEqual(len(self.read_independently(self.key, copy)), 60)
        self.q("erase", "one", "--yes")
        self.assertEqual(self.read_independently(self.key), [])

    def test_a_passphrase_in_a_file(self):
        env = {"QUIPU_PASSPHRASE_FILE": self.secret("phrase", b"correct horse\n")}
        self.fill(env)
        self.assertEqual(len(self.read_independently(b"correct horse")), 60)
        other = {"QUIPU_PASSPHRASE_FILE": self.secret("other", b"wrong horse\n")}
        self.assertIn("the key does not fit", self.q("ls", code=1, env=other).err)
        self.assertIn("60", self.q("ls", env=env).out)

    def test_a_file_that_holds_no_key_is_refused(self):
        digits = self.key.hex().encode()
        for data in (b"", b"12345", self.key + b"\n", b"g" * 64, digits + b"\r\n", digits + b"\n\n",
                     b"\xef\xbb\xbf" + digits, b"w" * 31 + b"\n", b"w" * 32):
            env = {"QUIPU_KEY_FILE": self.secret("bad", data)}
            self.assertIn("holds no key", self.q("init", "--encrypt", code=2, env=env).err)
        for data in (b"", b"\r\n", b"p" * 1025, b"p" * 1024 + b"\n\nmore"):
            env = {"QUIPU_PASSPHRASE_FILE": self.secret("bad", data)}
            self.assertIn("1 to 1024 bytes", self.q("init", "--encrypt", code=2, env=env).err)
        env = {"QUIPU_KEY_FILE": str(self.dir)}
        self.assertIn("Is a directory", self.q("init", "--encrypt", code=2, env=env).err)
        both = self.keyed | {"QUIPU_PASSPHRASE_FILE": self.secret("phrase", b"p")}
        self.assertIn("both given", self.q("init", "--encrypt", code=2, env=both).err)
        self.assertFalse(pathlib.Path(self.store).exists())

    def test_a_key_comes_through_a_pipe_that_is_read_once(self):
        for args, line in ((("init", "--encrypt"), ""), (("append", "one", "-", "--create"),
                           '{"role":"user","content":"x"}\n'), (("ls",), "")):
            shell = 'QUIPU_KEY_FILE=<(cat "$KEY") exec "$@"'
            ran = subprocess.run(
                ["bash", "-c", shell, "bash", harness.program(), *args, "--store", self.store],
                input=line.encode(), capture_output=True, check=False,
                env=self.env | {"KEY": self.keyed["QUIPU_KEY_FILE"]})
            self.assertEqual((ran.returncode, ran.stderr), (0, b""))
        self.assertIn("one", self.q("ls").out)

    def test_what_does_not_fit_has_an_error_of_its_own(self):
        self.fill()
        before = pathlib.Path(self.store).read_bytes()
        wrong = {"QUIPU_KEY_FILE": self.secret("wrong", bytes(32))}
        short = {"QUIPU_KEY_FILE": self.secret("short", b"12345")}
        self.assertIn("it is encrypted, and no key was given", self.q("ls", code=1, env={}).err)
        self.assertIn("it is encrypted", self.q("doctor", code=1, env={}).out)
        self.assertIn("the key does not fit", self.q("ls", code=1, env=wrong).err)
        self.assertIn("holds no key", self.q("ls", code=2, env=short).err)
        missing = {"QUIPU_KEY_FILE": str(self.dir / "none")}
        self.assertIn("cannot be read", self.q("ls", code=2, env=missing).err)
        pathlib.Path(short["QUIPU_KEY_FILE"]).chmod(0o644)
        self.assertIn("chmod 600", self.q("ls", code=2, env=short).err)
        self.assertIn("--encrypt needs a key", self.q("init", "--encrypt", code=2, env={}).err)
        plain = str(self.dir / "plain-store.db")
        self.q("init", env={}, store=plain)
        self.assertIn("it is not encrypted", self.q("ls", code=1, store=plain).err)
        self.assertEqual(pathlib.Path(self.store).read_bytes(), before)
        damaged = bytearray(before)
        damaged[-2000] ^= 1
        pathlib.Path(self.store).write_bytes(damaged)
        self.q("verify", code=1)
        pathlib.Path(self.store).write_bytes(before[:-4096])
        self.assertIn("damaged", self.q("ls", code=1).err)

    def test_the_store_moves_as_files(self):
        self.fill()
        shutil.copy(self.store, self.dir / "moved.db")
        self.assertIn("one", self.q("ls", store=str(self.dir / "moved.db")).out)


if __name__ == "__main__":
    harness.main()
