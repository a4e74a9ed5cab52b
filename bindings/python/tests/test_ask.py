"""Models that observe: functions that a worker of memory calls, on its own threads too."""

import hashlib
import json
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import quipu
from quipu import AsyncStore, Question, Store

LINE = {
    "text": "The user prefers trains.",
    "priority": "high",
    "topic": "preference",
    "from": 1,
    "to": 1,
    "subject": "trains",
    "about": "",
    "replaces": 0,
}


class Model:
    """Says what its script has, and notes what it is asked."""

    def __init__(self, answer: str = json.dumps({"observations": [LINE]})) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> str:
        self.asked.append(question)
        return self.answer


@pytest.fixture
def said(store: Store) -> Store:
    """A session with a message."""
    store.append("k", "Trains are so much nicer than planes.", create=True)
    return store


def _wait_known(store: Store, count: int) -> None:
    end = time.monotonic() + 60
    while len(store.memory_find("k")) < count:
        assert time.monotonic() < end, "nothing was observed"
        time.sleep(0.01)


def test_a_function_observes_instead_of_the_rules(said: Store) -> None:
    model = Model()
    ran = said.memory_run("k", ask=model, model="small", observe_tokens=1, lease=20)
    assert (ran.observations, ran.model_calls, ran.failed) == (1, 1, 0)
    (line,) = said.memory_find("k")
    assert (line.content, line.origin) == (LINE["text"], "observe/1 small")
    (question,) = model.asked
    assert question.model == "small"
    assert "Trains are so much nicer than planes." in question.text
    assert question.instructions.startswith("You keep the notes")
    assert json.loads(question.schema)["required"] == ["observations"]
    assert 0 < question.timeout <= 20
    status = said.memory_status("k").sessions[0]
    assert status.model_calls == 1 and status.model_input > 0 and status.model_output > 0


def test_an_agent_has_its_own_prompts(said: Store) -> None:
    prompt = "Write down only what people like. Über alles.\n"
    model = Model()
    said.memory_run("k", ask=model, model="m", observe_tokens=1, observe_prompt=prompt)
    assert model.asked[0].instructions.startswith(prompt)
    digest = hashlib.sha256(prompt.encode()).hexdigest()[:8]
    assert said.memory_find("k")[0].origin == f"observe/1:{digest} m"
    with pytest.raises(quipu.Limit):
        said.memory_run("k", ask=model, model="m", reflect_prompt="x" * 16385)
    with pytest.raises(quipu.Misuse, match="provider"):
        said.memory_run("k", observe_prompt=prompt)


def test_what_a_function_raises_is_why_the_session_waits(said: Store) -> None:
    def broken(question: Question) -> str:
        raise ValueError("the key is wrong")

    ran = said.memory_run("k", ask=broken, model="m", observe_tokens=1)
    assert (ran.observations, ran.failed) == (0, 1)
    status = said.memory_status("k").sessions[0]
    assert status.watermark == 0
    assert status.last_error is not None and "ValueError: the key is wrong" in status.last_error


def test_an_answer_is_a_text_in_the_form_that_was_asked_for(said: Store) -> None:
    said.append("other", "I prefer tea.", create=True)
    odd: Any = lambda question: 7  # noqa: E731
    ran = said.memory_run("k", ask=odd, model="m", observe_tokens=1)
    assert ran.failed == 1
    assert "must return a str" in (said.memory_status("k").sessions[0].last_error or "")
    assert said.memory_run("other", ask=Model("tea!"), model="m", observe_tokens=1).failed == 1
    assert "refused" in (said.memory_status("other").sessions[0].last_error or "")
    with pytest.raises(TypeError, match="ask must be a function"):
        said.memory_run("k", ask="m", model="m")  # type: ignore[arg-type]
    with pytest.raises(quipu.Misuse, match="model"):
        said.memory_run("k", ask=Model())


def test_a_worker_asks_beside_the_program_and_no_call_waits_for_it(said: Store) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(question: Question) -> str:
        asked.set()
        assert go_on.wait(60)
        return json.dumps({"observations": [LINE]})

    said.memory_start("k", ask=slow, model="m", observe_tokens=1)
    del slow  # the store keeps it
    assert asked.wait(60)
    said.append("k", "I prefer boats.")
    assert len(said.get("k").messages) == 2  # while the model thinks
    with pytest.raises(quipu.Exists):
        said.memory_start(ask=Model(), model="other")
    go_on.set()
    _wait_known(said, 1)
    assert said.memory_stop().model_calls >= 1
    said.memory_start("k")  # by rules again: the function is given back
    said.memory_stop()


def test_an_async_store_asks_as_well(tmp_path: pathlib.Path) -> None:
    import asyncio

    async def talk() -> None:
        model = Model()
        async with AsyncStore(tmp_path / "s.db") as store:
            await store.append("k", "Trains are so much nicer than planes.", create=True)
            async with store.memory_worker("k", ask=model, model="m", observe_tokens=1):
                for _ in range(6000):
                    if await store.memory_find("k"):
                        break
                    await asyncio.sleep(0.01)
            assert [one.origin for one in await store.memory_find("k")] == ["observe/1 m"]

    asyncio.run(talk())


def test_a_program_that_ends_while_its_function_runs_does_not_hang(tmp_path: pathlib.Path) -> None:
    program = """
import sys, threading, time, quipu
asked = threading.Event()
def ask(question):
    asked.set()
    time.sleep(0.5)
    return "{}"
store = quipu.Store(sys.argv[1])
store.append("k", "I prefer trains.", create=True)
store.memory_start(ask=ask, model="m", observe_tokens=1)
assert asked.wait(60)
print("ends")
"""
    command = [sys.executable, "-c", program, str(tmp_path / "s.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "ends\n" and done.stderr == ""
