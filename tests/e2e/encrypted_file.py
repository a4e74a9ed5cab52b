"""Reads an encrypted store by docs/encryption.md alone: the independent implementation that the
tests compare quipu with. Shares no code with quipu."""

import hashlib
import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

BLOCK = 4096
COPY = 2048
RESERVED = 48
MAGIC = b"quipu encrypted\0"
EPOCH = 1
BLANK = 0x80000000
MARK = b"QP\xe5L\xb6G\x47\x01"


class Damaged(Exception):
    """The file does not fit the key, or itself."""


def hkdf(key, salt, name, size):
    """HKDF-SHA256 to `size` bytes."""
    prk = hmac.digest(salt, key, "sha256")
    info = name + b"\0" + struct.pack(">I", EPOCH)
    okm, last = b"", b""
    while len(okm) < size:
        last = hmac.digest(prk, last + info + bytes([len(okm) // 32 + 1]), "sha256")
        okm += last
    return okm[:size]


def file_keys(file_key):
    """Page key and place key."""
    okm = hkdf(file_key, bytes(32), b"quipu encrypted", 96)
    return okm[:32], okm[32:]


def wrap(master, params, file_key):
    """The wrapped file key and its tag; `params` are the first 96 bytes of the header."""
    key = hkdf(master, params[64:96], b"quipu wrapped", 32)
    return AESGCM(key).encrypt(bytes(12), file_key, params)


def unwrap(master, params, wrapped):
    """The file key."""
    key = hkdf(master, params[64:96], b"quipu wrapped", 32)
    try:
        return AESGCM(key).decrypt(bytes(12), wrapped, params)
    except InvalidTag as error:
        raise Damaged("the key does not fit") from error


def ecb(key, data):
    """AES-256 of whole blocks."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return cipher.update(data) + cipher.finalize()


def xaes_key(key, nonce):
    """The key that XAES-256-GCM derives for a nonce of 24 bytes."""
    first = int.from_bytes(ecb(key, bytes(16)), "big")
    sub = (first << 1 & (1 << 128) - 1) ^ (0x87 if first >> 127 else 0)
    sub = sub.to_bytes(16, "big")
    blocks = b"".join(bytes([0, i]) + b"X\0" + nonce[:12] for i in (1, 2))
    return ecb(key, bytes(a ^ b for a, b in zip(blocks, sub + sub)))


def place(kind, number, at=0, salts=0):
    """The authenticated data of a page."""
    return kind + bytes(3) + struct.pack(">IQQ", number, at, salts)


def show(place_key, frame, header, hides=False):
    """The header of a log frame, open; or hidden."""
    tweak = struct.pack(">II", 0, frame) + header[:8]
    cipher = Cipher(algorithms.AES(place_key), modes.XTS(tweak))
    context = cipher.encryptor() if hides else cipher.decryptor()
    return header[:8] + context.update(header[8:]) + context.finalize()


def open_page(key, page, aad):
    """What SQLite wrote."""
    sealed, nonce, tag = page[:-40], page[-40:-16], page[-16:]
    first = struct.unpack(">I", nonce[:4])[0]
    if first & ~BLANK != EPOCH:
        raise Damaged("no page of this key")
    try:
        text = AESGCM(xaes_key(key, nonce)).decrypt(nonce[12:], sealed + tag, aad)
    except InvalidTag as error:
        raise Damaged("a page does not fit its tag") from error
    blank = first & BLANK
    return text[:-8] + (bytes(48) if blank else MARK + text[-8:] + bytes(32))


def seal_page(key, page, aad, random, main=False):
    """For known answers: `random` is the nonce's 20 bytes and the blind's 8."""
    blank = page[-48:] == bytes(48) and not main
    nonce = struct.pack(">I", EPOCH | (BLANK if blank else 0)) + random[:20]
    blind = random[20:28] if main else page[-40:-32]
    sealed = AESGCM(xaes_key(key, nonce)).encrypt(nonce[12:], page[:-48] + blind, aad)
    return sealed[:-16] + nonce + sealed[-16:]


def header(block):
    """The sound copy of the header block, of two the one of the higher generation."""
    copies = [block[:COPY], block[COPY:]]
    sound = [copy for copy in copies if copy[:16] == MAGIC
             and hashlib.sha256(copy[:-32]).digest() == copy[-32:]]
    if not sound:
        raise Damaged("the header block is damaged")
    return max(sound, key=lambda copy: copy[40:48])


def master_key(secret, copy):
    """The user's key, or what scrypt makes of a passphrase."""
    form, log_n, r, p = struct.unpack(">4I", copy[24:40])
    if form == 0:
        return secret
    return hashlib.scrypt(secret, salt=copy[64:96], n=1 << log_n, r=r, p=p, dklen=32,
                          maxmem=(128 << log_n) * r + (1 << 22))


class Reader:
    """An encrypted file and its log, whose pages are decrypted one by one."""

    def __init__(self, path, secret):
        with open(path, "rb") as file:
            self.main = file.read()
        try:
            with open(str(path) + "-wal", "rb") as file:
                self.log = file.read()
        except FileNotFoundError:
            self.log = b""
        block = self.main[:BLOCK]
        if len(block) < BLOCK:
            raise Damaged("no encrypted file")
        copy = header(block)
        version, self.size = struct.unpack(">2I", copy[16:24])
        if version != 1:
            raise Damaged("a later version")
        file_key = unwrap(master_key(secret, copy), copy[:96], copy[96:144])
        self.key, self.place_key = file_keys(file_key)

    def pages(self):
        """All pages, with what the log's committed transactions say of them."""
        body = self.main[BLOCK:]
        pages = {}
        for number in range(1, len(body) // self.size + 1):
            raw = body[(number - 1) * self.size:number * self.size]
            pages[number] = open_page(self.key, raw, place(b"M", number))
        for number, page in self.committed():
            pages[number] = page
        return pages

    def committed(self):
        """(page number, page) of the log, by SQLite's rules of recovery."""
        if len(self.log) < 32:
            return
        salts = self.log[16:24]
        order = ">" if self.log[3] & 1 else "<"
        before = struct.unpack(">II", self.log[24:32])
        waiting = []
        step = 24 + self.size
        for frame in range(1, (len(self.log) - 32) // step + 1):
            raw = self.log[32 + (frame - 1) * step:32 + frame * step]
            header = show(self.place_key, frame, raw[:24])
            number, commit = struct.unpack(">II", header[:8])
            if header[8:16] != salts:
                return
            try:
                page = open_page(self.key, raw[24:],
                                 place(b"L", number, frame, int.from_bytes(salts, "big")))
            except Damaged:
                return
            before = self.checksum(order, before, header[:8] + page)
            if before != struct.unpack(">II", header[16:]):
                return
            waiting.append((number, page))
            if commit:
                yield from waiting
                waiting = []

    @staticmethod
    def checksum(order, before, data):
        """SQLite's checksum of the log, continued."""
        a, b = before
        words = struct.unpack(f"{order}{len(data) // 4}I", data)
        for i in range(0, len(words), 2):
            a = (a + words[i] + b) & 0xffffffff
            b = (b + words[i + 1] + a) & 0xffffffff
        return a, b

    def write(self, path):
        """Writes the open database, for sqlite3; it has no log."""
        pages = self.pages()
        with open(path, "wb") as file:
            for number in sorted(pages):
                file.seek((number - 1) * self.size)
                page = pages[number]
                if number == 1:
                    page = page[:18] + b"\1\1" + page[20:]
                file.write(page)


# ---- encrypted exports -----------------------------------------------------------------------

EXPORT_MAGIC = b"quipu export enc"
EXPORT_HEADER = 132


def export_keys(secret, header):
    """The key of the chunks, and that of the header."""
    form, log_n, r, p = struct.unpack(">4I", header[20:36])
    salt = header[36:68]
    master = secret if form == 0 else hashlib.scrypt(
        secret, salt=salt, n=1 << log_n, r=r, p=p, dklen=32, maxmem=(128 << log_n) * r + (1 << 22))
    prk = hmac.digest(salt, master, "sha256")
    first = hmac.digest(prk, header[:20] + b"\1", "sha256")
    return first, hmac.digest(prk, first + header[:20] + b"\2", "sha256")


def open_export(data, secret):
    """The lines of an encrypted export."""
    header = data[:EXPORT_HEADER]
    if header[:16] != EXPORT_MAGIC or hashlib.sha256(header[:100]).digest() != header[100:]:
        raise Damaged("no header of an encrypted export")
    if header[16:20] != struct.pack(">I", 1):
        raise Damaged("a later version")
    key, header_key = export_keys(secret, header)
    if hmac.digest(header_key, header[:68], "sha256") != header[68:100]:
        raise Damaged("the key does not fit")
    text, at, number, last = b"", EXPORT_HEADER, 0, False
    while not last:
        number += 1
        nonce = data[at:at + 12]
        if len(nonce) < 12:
            raise Damaged("the export is cut")
        found, word = struct.unpack(">QI", nonce)
        if found != number:
            raise Damaged("another chunk")
        last, size = bool(word >> 31), word & 0x7fffffff
        try:
            text += AESGCM(key).decrypt(nonce, data[at + 12:at + 12 + size + 16], None)
        except InvalidTag as error:
            raise Damaged("a chunk does not fit its tag") from error
        at += 12 + size + 16
    if at != len(data):
        raise Damaged("something behind the last chunk")
    return text


def seal_export(text, secret, salt, size=65536):
    """For known answers, with a key of 32 bytes."""
    header = EXPORT_MAGIC + struct.pack(">5I", 1, 0, 0, 0, 0) + salt
    key, header_key = export_keys(secret, header)
    header += hmac.digest(header_key, header, "sha256")
    data = header + hashlib.sha256(header).digest()
    chunks = [text[i:i + size] for i in range(0, len(text), size)] or [b""]
    for number, chunk in enumerate(chunks, 1):
        nonce = struct.pack(">QI", number, len(chunk) | (number == len(chunks)) << 31)
        data += nonce + AESGCM(key).encrypt(nonce, chunk, None)
    return data
