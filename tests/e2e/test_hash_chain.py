#!/usr/bin/env python3
"""Hash chains, by the program: heads prove what is there and find what is lost, and a reader that
knows docs/integrity.md alone recomputes the chains of an export."""

import base64
import datetime
import hashlib
import json
import pathlib
import shutil
import struct
import sqlite3
import uuid

import harness

ZERO = bytes(32)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def seconds(text):
    """RFC 3339 with up to nine decimals, as whole seconds and nanoseconds."""
    whole, _, rest = text.rstrip("Z").partition(".")
    parsed = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    delta = parsed - EPOCH
    return delta.days * 86400 + delta.seconds, int((rest + "000000000")[:9])


def raw(line, name):
    """The text of a JSON member as it stands in the line: a decoder would lose its spelling."""
    text_member = json.loads(line).get(name + "_text")
    if text_member is not None:
        return text_member.encode()
    at = line.index(f'"{name}":') + len(name) + 3
    return line[at : at + json.JSONDecoder().raw_decode(line[at:])[1]].encode()


def event_id(text):
    try:
        if str(uuid.UUID(text)) == text:
            return b"\1" + uuid.UUID(text).bytes
    except ValueError:
        pass
    return b"\0" + text.encode()


def fields(line):
    """The bytes that are hashed of a message."""
    message = json.loads(line)
    values = {
        "role": message["role"].encode(),
        "content": message["content"].encode(),
        "timestamp": struct.pack("<qI", *seconds(message["timestamp"])),
        "seq": struct.pack("<q", message["seq"]),
        "event_id": event_id(message["event_id"]),
    }
    for name in ("author", "invocation_id", "branch", "mark"):
        if name in message:
            values[name] = message[name].encode()
    for name in ("tool_calls", "extra"):
        if name in message or name + "_text" in message:
            values[name] = raw(line, name)
    order = (
        "role content timestamp tool_calls author seq event_id invocation_id branch extra mark"
    ).split()
    return b"".join(
        bytes([len(name)]) + name.encode() + struct.pack("<I", len(values[name])) + values[name]
        for name in order
        if name in values
    )


def check_export(text):
    """Recompute every chain of an export without forks; returns the number of messages."""
    count = 0
    session = None
    before = ZERO
    for line in text.splitlines():
        item = json.loads(line)
        if item.get("type") == "session":
            assert session is None or before == base64.b64decode(session.get("head_hash", "")) or (
                "head_hash" not in session
            )
            session = item
            before = base64.b64decode(session["base_hash"]) if "base_hash" in session else ZERO
        elif item.get("type") == "message":
            salted = base64.b64decode(item["salted_hash"])
            data = before + fields(line)
            person = b"quipu chain 1"
            before = hashlib.blake2b(data, digest_size=32, salt=salted[:16], person=person).digest()
            assert before == salted[16:], f"message {item['seq']} of {session['key']}"
            count += 1
    assert before == base64.b64decode(session["head_hash"])
    return count


class HashChain(harness.Case):
    def append(self, *texts, key="chat"):
        for text in texts:
            self.run_quipu("append", key, "--create", "--text", text)

    def heads(self, *key):
        path = self.folder / "kept.head"
        path.write_text(self.run_quipu("head", *key).out)
        return path

    def test_a_reader_that_knows_the_documentation_recomputes_the_chains(self):
        lines = [
            {"role": "user", "content": "a \u00e9 \U0001f642 b", "author": "ana"},
            {"role": "assistant", "content": "", "eventId": "my own id",
             "toolCalls": [{"id": "c1", "name": "exec", "input": "{}", "output": "done"}]},
            {"role": "model", "content": "cut", "timestamp": "1969-12-31T23:59:59.5Z",
             "eventId": "0190a5c3-7e5b-7cc0-8d3f-0123456789ab",
             "invocationId": "inv", "branch": "x.y"},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.run_quipu("append", "rich", "--create", stdin=text)
        self.append("one", "two", "three", "four")
        self.run_quipu("compact", "chat", "--summary", "in short", "--through", 2)
        self.run_quipu("prune", "chat", "--yes")
        self.append("five")
        self.assertEqual(check_export(self.run_quipu("export", "--flat").out), 7)

    def test_heads_a_backup_and_an_export_prove_a_store_that_grew(self):
        self.append("one", "two")
        self.append("other", key="second")
        backup = self.folder / "backup.db"
        export = self.folder / "export.jsonl"
        self.run_quipu("backup", backup)
        self.run_quipu("export", "--output", export)
        head = self.heads("chat")
        self.assertEqual(len(head.read_text().splitlines()), 1)
        self.append("three")
        for known, count in ((head, 1), (backup, 2), (export, 2)):
            out = self.run_quipu("verify", "--against", known).out
            self.assertIn(f"{count} sessions were known: {count} proved, 0 lost", out)
        done = self.run_quipu("verify", "--against", "-", "--json", stdin=head.read_text()).json()
        self.assertEqual(done["against"]["proved"], 1)
        self.assertEqual(done["problems"], [])

    def test_a_flipped_bit_in_the_log_loses_a_tail_which_a_head_finds(self):
        self.append("one")
        # A reader keeps the log from being moved into the file, as a crash does.
        with sqlite3.connect(self.store) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM messages").fetchone()
            self.append("two", "three")
            head = self.heads("chat")
            crashed = self.folder / "crashed.db"
            log = pathlib.Path(f"{self.store}-wal").read_bytes()
            shutil.copy(self.store, crashed)
        reader.close()
        flipped = bytearray(log)
        flipped[40] ^= 1
        pathlib.Path(f"{crashed}-wal").write_bytes(flipped)
        self.run_quipu("verify", "--store", crashed)  # what is left is sound
        result = self.run_quipu("verify", "--store", crashed, "--against", head, "--json", code=1)
        problems = result.json()["problems"]
        self.assertEqual([one["kind"] for one in problems], ["lost"])
        self.assertEqual(problems[0]["text"], "it had messages up to 3, and has none behind 1")

    def test_what_is_known_of_nothing_is_an_error(self):
        self.append("one")
        empty = self.folder / "empty"
        empty.write_text("")
        self.assertIn("no head", self.run_quipu("verify", "--against", empty, code=1).err)
        self.run_quipu("verify", "--against", self.folder / "missing", code=None)
        self.assertIn("no session", self.run_quipu("head", "missing", code=None).err)


if __name__ == "__main__":
    harness.main()
