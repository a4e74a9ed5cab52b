"""Random events as JSON trees: ADK's members and unknown ones, odd numbers, texts and bytes."""

from __future__ import annotations

import base64
import random
import uuid
from typing import Any

ALPHABET = 'aZ09 _-:/"\\\n\t\u0000\u007fäß漢字\U0001f600\u2028'


class Number:
    """A number spelled as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


class Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def text(self, most: int = 40) -> str:
        return "".join(self.random.choices(ALPHABET, k=self.random.randint(0, most)))

    def number(self) -> Any:
        kind = self.random.randrange(6)
        if kind == 0:
            return self.random.randint(-(2**70), 2**70)
        if kind == 1:
            return self.random.uniform(-1e9, 1e9)
        if kind == 2:
            return Number(self.random.choice(("1.0", "1e5", "1E+5", "-0", "0.10", "1.50e-3")))
        return self.random.randint(-5, 5)

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randrange(8 if depth < 4 else 5)
        if kind == 0:
            return None
        if kind == 1:
            return self.chance(0.5)
        if kind == 2:
            return self.number()
        if kind in (3, 4):
            return self.text()
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return self.object(depth + 1)

    def object(self, depth: int = 0) -> dict[str, Any]:
        return {self.text(8): self.value(depth) for _ in range(self.random.randrange(4))}

    def bytes(self) -> str:
        raw = self.random.randbytes(self.random.randrange(12))
        return (base64.urlsafe_b64encode if self.chance(0.5) else base64.b64encode)(raw).decode()

    def name(self, camel: str, snake: str) -> str:
        return snake if self.snake else camel

    def part(self) -> dict[str, Any]:
        kind = self.random.randrange(6)
        made: dict[str, Any] = {}
        if kind in (0, 1):
            made["text"] = self.text(200)
        elif kind == 2:
            call: dict[str, Any] = {"name": self.text(8), "args": self.object()}
            if self.chance(0.7):
                call["id"] = self.text(8)
            made[self.name("functionCall", "function_call")] = call
        elif kind == 3:
            response = {"id": "c", "name": self.text(8), "response": self.object()}
            made[self.name("functionResponse", "function_response")] = response
        elif kind == 4:
            blob = {"data": self.bytes(), self.name("mimeType", "mime_type"): "x/y"}
            made[self.name("inlineData", "inline_data")] = blob
        else:
            made[self.text(8)] = self.value()
        if self.chance(0.2):
            made["thought"] = self.chance(0.5)
        if self.chance(0.2):
            made[self.name("thoughtSignature", "thought_signature")] = self.bytes()
        return made

    def time(self) -> Any:
        kind = self.random.randrange(4)
        if kind == 0:
            return self.random.randint(0, 4_000_000_000)
        if kind == 1:
            return Number(
                f"{self.random.randint(0, 4_000_000_000)}.{self.random.randint(0, 999999):06d}"
            )
        return round(self.random.uniform(0, 4e9), self.random.randint(0, 6))

    def event(self) -> dict[str, Any]:
        self.snake = self.chance(0.5)
        made: dict[str, Any] = {
            "id": str(uuid.UUID(int=self.random.getrandbits(128))),
            "timestamp": self.time(),
            "author": self.random.choice(("user", "bot", self.text(8))),
        }
        if self.chance(0.8):
            made[self.name("invocationId", "invocation_id")] = self.text(12)
        if self.chance(0.9):
            parts = [self.part() for _ in range(self.random.randrange(4))]
            made["content"] = {"role": self.random.choice(("user", "model")), "parts": parts}
        if self.chance(0.5):
            delta = {name: value for name, value in self.object().items() if name}
            actions: dict[str, Any] = {self.name("stateDelta", "state_delta"): delta}
            if self.chance(0.3):
                actions[self.text(8)] = self.value()
            made["actions"] = actions
        for _ in range(self.random.randrange(3)):
            made.setdefault("x" + self.text(8), self.value())
        items = list(made.items())
        self.random.shuffle(items)
        return dict(items)
