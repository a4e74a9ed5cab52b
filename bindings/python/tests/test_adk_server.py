"""`adk api_server` for real, with a services.yaml of a few lines: its routes over our store."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import quipu

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "adk_web"
START_S = 120


class Server:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.log = folder / "server.log"

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [
            str(pathlib.Path(sys.executable).with_name("adk")),
            "api_server",
            "--host=127.0.0.1",
            f"--port={self.port}",
            "--session_service_uri=quipu:///agents.db",
            "--memory_service_uri=quipu:///agents.db",
            ".",
        ]
        environment = {**os.environ, "HOME": str(self.folder), "NO_PROXY": "127.0.0.1"}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env=environment
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.call("GET", "/list-apps")
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.2)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("agents")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    made = Server(folder)
    made.start()
    yield made
    made.stop()


SESSIONS = "/apps/scripted_agent/users/u/sessions"


def test_the_server_keeps_sessions_in_our_store(server: Server) -> None:
    assert server.call("GET", "/list-apps") == (200, ["scripted_agent"])
    status, made = server.call("POST", SESSIONS, {"sessionId": "s1", "state": {"k": 1}})
    assert (status, made["id"], made["state"]) == (200, "s1", {"k": 1})
    assert server.call("POST", SESSIONS, {"sessionId": "s1"})[0] == 409
    assert server.call("GET", f"{SESSIONS}/none")[0] == 404
    run = {
        "appName": "scripted_agent",
        "userId": "u",
        "sessionId": "s1",
        "newMessage": {"role": "user", "parts": [{"text": "hello there"}]},
    }
    status, events = server.call("POST", "/run", run)
    assert status == 200, server.log.read_text()
    assert "hello there" in events[0]["content"]["parts"][0]["text"]
    status, patched = server.call("PATCH", f"{SESSIONS}/s1", {"stateDelta": {"user:lang": "de"}})
    assert (status, patched["state"]) == (200, {"k": 1, "user:lang": "de"})
    status, found = server.call("GET", f"{SESSIONS}/s1")
    assert (status, len(found["events"])) == (200, 3)
    assert (
        server.call("PATCH", "/apps/scripted_agent/users/u/memory", {"sessionId": "s1"})[0] == 200
    )
    assert (server.folder / "agents.db").exists()


def test_a_restarted_server_knows_them(server: Server) -> None:
    server.call("POST", SESSIONS, {"sessionId": "s2", "state": {"x": [1, None]}})
    server.stop()
    server.start()
    status, found = server.call("GET", f"{SESSIONS}/s2")
    assert (status, found["state"]["x"]) == (200, [1, None])
    listed = {session["id"] for session in server.call("GET", SESSIONS)[1]}
    assert "s2" in listed
    assert server.call("DELETE", f"{SESSIONS}/s2")[0] == 200
    assert server.call("GET", f"{SESSIONS}/s2")[0] == 404


def test_an_id_that_cannot_exist_is_not_found(server: Server) -> None:
    assert server.call("GET", f"{SESSIONS}/{'x' * 3000}")[0] == 404
    assert server.call("GET", f"{SESSIONS}/a%00b")[0] == 404


def test_parallel_runs_of_one_session_all_answer(server: Server) -> None:
    server.call("POST", SESSIONS, {"sessionId": "busy"})

    def run(number: int) -> int:
        message = {"role": "user", "parts": [{"text": f"number {number}"}]}
        body = {"appName": "scripted_agent", "userId": "u", "sessionId": "busy"}
        return server.call("POST", "/run", {**body, "newMessage": message})[0]

    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        assert list(threads.map(run, range(20))) == [200] * 20
    found = server.call("GET", f"{SESSIONS}/busy")[1]
    asked = [event for event in found["events"] if event["author"] == "user"]
    assert len(asked) == 20 and len(found["events"]) == 40


def test_adk_run_takes_the_services_of_the_agents_folder(tmp_path: pathlib.Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    shutil.move(tmp_path / "services.yaml", tmp_path / "scripted_agent" / "services.yaml")
    done = subprocess.run(
        [
            str(pathlib.Path(sys.executable).with_name("adk")),
            "run",
            "--session_service_uri=quipu:///agents.db",
            "scripted_agent",
        ],
        cwd=tmp_path,
        input="hello\nexit\n",
        capture_output=True,
        text=True,
        timeout=START_S,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with quipu.Store(tmp_path / "agents.db", read_only=True) as store:
        (session,) = store.list(app_name="scripted_agent").sessions
        assert session.message_count == 2
