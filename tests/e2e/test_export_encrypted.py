#!/usr/bin/env python3
"""Encrypted exports, by the program: keys from files, variables and the terminal, a reader that
knows docs/encryption.md alone, and an error for each way in which key and file do not fit."""

import pathlib
import secrets
import sys

import harness

try:
    import encrypted_file
except ImportError:
    print("SKIP: no cryptography (python3-cryptography)")
    sys.exit(77)

PLANTED = "a-text-that-no-export-may-show"


class EncryptedExport(harness.Case):
    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(self.folder)
        self.store = str(self.dir / "store.db")
        self.sealed = str(self.dir / "chats.enc")
        self.key = secrets.token_bytes(32)
        self.key_file = self.secret("key", self.key.hex().encode() + b"\n")
        self.q("init")
        lines = "".join(f'{{"role":"user","content":"{PLANTED} {i} {"x" * 3000}"}}\n'
                        for i in range(60))
        self.q("append", "one", "-", "--create", stdin=lines.encode())

    def secret(self, name, data):
        """A file that only its owner reads."""
        path = self.dir / name
        path.write_bytes(data)
        path.chmod(0o600)
        return str(path)

    def q(self, *args, code=0, stdin=b"", env=None, store=None):
        return self.run_quipu(*args, "--store", store or self.store, code=code, stdin=stdin,
                              env=env or {})

    def export(self, *args, env=None):
        self.q("export", "--encrypt", "--output", self.sealed, "--force", *args, env=env)
        data = pathlib.Path(self.sealed).read_bytes()
        self.assertNotIn(PLANTED.encode(), data)
        self.assertEqual(pathlib.Path(self.sealed).stat().st_mode & 0o777, 0o600)
        return data

    def refused(self, says, *args, code=1, env=None):
        """The import fails and stores nothing; so does the comparison."""
        other = str(self.dir / "other.db")
        ran = self.q("import", self.sealed, *args, store=other, code=code, env=env)
        self.assertIn(says, ran.err)
        if pathlib.Path(other).exists():
            self.assertNotIn("one", self.q("ls", store=other).out)
        ran = self.q("verify", "--against", self.sealed, *args, code=code, env=env)
        self.assertIn(says, ran.err)

    def test_an_independent_reader_decrypts_an_export(self):
        plain = self.q("export").out.encode()
        data = self.export("--export-key-file", self.key_file)
        self.assertGreater(len(data), 2 * 65536)
        self.assertEqual(encrypted_file.open_export(data, self.key), plain)
        with self.assertRaises(encrypted_file.Damaged):
            encrypted_file.open_export(data, bytes(32))
        phrase = self.secret("phrase", b"correct horse\n")
        data = self.export("--export-passphrase-file", phrase)
        self.assertEqual(encrypted_file.open_export(data, b"correct horse"), plain)

    def test_what_the_independent_writer_made_is_imported(self):
        plain = self.q("export").out.encode()
        pathlib.Path(self.sealed).write_bytes(
            encrypted_file.seal_export(plain, self.key, secrets.token_bytes(32), 1000))
        other = str(self.dir / "new.db")
        self.q("import", self.sealed, "--export-key-file", self.key_file, store=other)
        self.assertEqual(self.q("export", store=other).out.encode(), plain)

    def test_every_source_of_a_key_opens_the_export(self):
        plain = self.q("export").out
        phrase = self.secret("phrase", b"correct horse\n")
        sources = ((("--export-key-file", self.key_file), {}),
                   ((), {"QUIPU_EXPORT_KEY_FILE": self.key_file}),
                   (("--export-passphrase-file", phrase), {}),
                   ((), {"QUIPU_EXPORT_PASSPHRASE_FILE": phrase}))
        for i, (args, env) in enumerate(sources):
            self.export(*args, env=env)
            other = str(self.dir / f"new{i}.db")
            self.assertIn("60 messages", self.q("import", self.sealed, *args, env=env,
                                                store=other).out)
            self.assertEqual(self.q("export", store=other).out, plain)
            self.assertIn("1 proved", self.q("verify", "--against", self.sealed, *args,
                                             env=env).out)
        with open(self.sealed, "rb") as file:
            ran = self.q("verify", "--against", "-", env={"QUIPU_EXPORT_PASSPHRASE_FILE": phrase},
                         stdin=file.read())
        self.assertIn("1 proved", ran.out)

    def test_an_encrypted_store_lends_its_key(self):
        keyed = {"QUIPU_KEY_FILE": self.key_file}
        store = str(self.dir / "safe.db")
        self.q("init", "--encrypt", env=keyed, store=store)
        text = f'{{"role":"user","content":"{PLANTED}"}}'
        self.q("append", "one", "-", "--create", stdin=text, env=keyed, store=store)
        self.q("export", "--encrypt", "-o", self.sealed, env=keyed, store=store)
        data = pathlib.Path(self.sealed).read_bytes()
        self.assertIn(PLANTED.encode(), encrypted_file.open_export(data, self.key))
        other = str(self.dir / "new.db")
        self.q("import", self.sealed, env=keyed, store=other)
        self.assertIn(PLANTED, self.q("show", "one", env=keyed, store=other).out)
        self.assertIn("1 proved", self.q("verify", "--against", self.sealed, env=keyed,
                                         store=store).out)

    def test_what_does_not_fit_has_an_error_of_its_own(self):
        data = self.export("--export-key-file", self.key_file)
        wrong = self.secret("wrong", bytes(32))
        keyed = ("--export-key-file", self.key_file)
        self.refused("the key does not fit this export", "--export-key-file", wrong)
        self.refused("the key of the export is missing", code=2)
        self.refused("cannot be read", "--export-key-file", str(self.dir / "none"), code=2)
        self.refused("are both given", *keyed, "--export-passphrase-file", wrong, code=2)
        sealed = pathlib.Path(self.sealed)
        sealed.write_bytes(data[:-1])
        self.refused("its end is missing", *keyed)
        sealed.write_bytes(data[:132 + 28 + 65536])
        self.refused("its end is missing", *keyed)
        sealed.write_bytes(data[:50])
        self.refused("header of the encrypted export is damaged", *keyed)
        changed = bytearray(data)
        changed[-30] ^= 1
        sealed.write_bytes(changed)
        self.refused("does not fit its tag", *keyed)
        ran = self.q("import", self.sealed, *keyed, store=str(self.dir / "other.db"), code=1)
        self.assertIn("take another copy of it, or export again", ran.err)
        self.assertNotIn("quipu verify", ran.err)  # it would look at the store
        sealed.write_bytes(data[:132] + data[132 + 28 + 65536:])
        self.refused("missing, repeated or in another order", *keyed)
        self.q("export", "-o", self.sealed, "--force")
        self.refused("is not encrypted, and a key was given", *keyed)

    def test_a_passphrase_is_typed_and_not_shown(self):
        ran = self.terminal("export", "--encrypt", "--output", self.sealed, "--store", self.store)
        ran.expect("passphrase of the export: ")
        ran.send("correct horse\n")
        ran.expect("the same again: ")
        ran.send("correct horse\n")
        self.assertNotIn("horse", ran.finish())
        self.assertEqual(ran.code, 0)
        data = pathlib.Path(self.sealed).read_bytes()
        self.assertIn(PLANTED.encode(), encrypted_file.open_export(data, b"correct horse"))
        other = str(self.dir / "new.db")
        ran = self.terminal("import", self.sealed, "--store", other)
        ran.expect("passphrase of the export: ")
        ran.send("correct horse\n")
        self.assertIn("60 messages", ran.finish())
        for first, second, says in (("one\n", "two\n", "these are two passphrases"),
                                    ("\n", None, "a passphrase has 1 to 1024 bytes"),
                                    ("half\x03", None, "a passphrase has 1 to 1024 bytes")):
            ran = self.terminal("export", "--encrypt", "-o", self.sealed, "--force",
                                "--store", self.store)
            ran.expect("passphrase of the export: ")
            ran.send(first)
            if second:
                ran.expect("the same again: ")
                ran.send(second)
            self.assertIn(says, ran.finish())
            self.assertEqual(ran.code, 2)
        self.assertEqual(pathlib.Path(self.sealed).read_bytes(), data)

    def test_wrong_usage_is_said(self):
        ran = self.q("export", "--export-key-file", self.key_file, code=2)
        self.assertIn("goes with --encrypt", ran.err)
        ran = self.q("export", "one", "--format", "html", "--encrypt", code=2)
        self.assertIn("without --flat and --encrypt", ran.err)
        ran = self.q("export", "--encrypt", "-o", self.sealed, code=2)
        self.assertIn("the key of the export is missing", ran.err)
        self.assertFalse(pathlib.Path(self.sealed).exists())


if __name__ == "__main__":
    harness.main()
