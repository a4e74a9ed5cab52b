#!/usr/bin/env python3
"""The fixtures are whole, git keeps their bytes, and their README describes each of them."""

import contextlib
import pathlib
import re
import shutil
import sqlite3
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "fixtures"
READMES = sorted(FOLDER.rglob("README.md"))
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path not in READMES)


class Fixtures(unittest.TestCase):
    def test_the_readme_describes_each_file_and_no_other(self):
        described = [
            readme.parent / name
            for readme in READMES
            for name in re.findall(r"^\| `?([^`| ]+\.db)`? \|", readme.read_text("utf-8"), re.M)
        ]
        self.assertEqual(sorted(described), FILES)

    def test_every_database_is_whole(self):
        for path in FILES:
            with tempfile.TemporaryDirectory() as folder, self.subTest(path.name):
                copy = shutil.copyfile(path, pathlib.Path(folder) / path.name)
                with contextlib.closing(sqlite3.connect(copy)) as database:
                    found = database.execute("PRAGMA integrity_check").fetchall()
                self.assertEqual(found, [("ok",)])

    def test_git_changes_no_byte_of_them(self):
        lines = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
        self.assertIn("*.db binary", lines)
        self.assertEqual({path.suffix for path in FILES}, {".db"})


if __name__ == "__main__":
    unittest.main()
