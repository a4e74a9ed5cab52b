"""Values at the edges: names that cannot exist, times, numbers, addresses, signals, packages."""

from __future__ import annotations

import importlib.metadata
import inspect
import math
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import textwrap

import pytest
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.session import Session

import quipu
from conftest import PROGRAM, ROOT
from quipu import Store
from quipu.adk import QuipuMemoryService, QuipuSessionService
from quipu.agents import QuipuSession
from test_adk_contract import APP, create, delta, read, says

IMPOSSIBLE = ["x" * 5000, "a\0b", "half \ud800 of a pair"]


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", IMPOSSIBLE, ids=["long", "nul", "surrogate"])
async def test_a_session_that_cannot_exist_is_not_found(
    service: QuipuSessionService, odd: str
) -> None:
    for user, name in (("u", odd), (odd, "s")):
        found = await service.get_session(app_name=APP, user_id=user, session_id=name)
        assert found is None
        await service.delete_session(app_name=APP, user_id=user, session_id=name)
        lost = Session(id=name, app_name=APP, user_id=user)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(lost, says("a"))
        with pytest.raises(ValueError):
            await service.create_session(app_name=APP, user_id=user, session_id=name)
    assert (await service.list_sessions(app_name=APP, user_id=odd)).sessions == []
    assert await service.get_user_state(app_name=APP, user_id=odd) == {}


# ---- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, -1, -0.5, math.nan, -math.inf])
def test_a_time_to_live_is_above_zero(path: pathlib.Path, wrong: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        quipu.Store(path, ttl=wrong)
    with pytest.raises(ValueError, match="deadline"):
        quipu.Store(path, deadline=wrong)
    with quipu.Store(path, ttl=3600) as store:
        with pytest.raises(ValueError, match="ttl"):
            store.create("k", ttl=wrong)
        store.create("k")
        with pytest.raises(ValueError, match="ttl"):
            store.update("k", ttl=wrong)
        assert store.get("k").session.expires_at is not None


def test_infinity_means_never(path: pathlib.Path) -> None:
    with quipu.Store(path, ttl=3600, deadline=math.inf) as store:
        assert store.create("kept", ttl=math.inf).expires_at is None
        assert store.create("gone").expires_at is not None
        store.update("gone", ttl=math.inf)
        assert store.get("gone").session.expires_at is None
    with quipu.Store(path, ttl=math.inf) as store:
        assert store.create("other").expires_at is None


def test_a_time_below_a_millisecond_is_one(path: pathlib.Path) -> None:
    with quipu.Store(path, ttl=1e-9) as store:
        assert store.create("k").expires_at is not None


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
async def test_state_refuses_numbers_that_json_lacks(
    service: QuipuSessionService, number: float
) -> None:
    with pytest.raises(quipu.Invalid, match="'score'"):
        await create(service, session_id="s", state={"score": number})
    session = await create(service, session_id="s", state={"temp:score": number})
    with pytest.raises(quipu.Invalid, match=r"'user:deep'\['a'\]\[1\]"):
        await service.append_event(
            session, delta({"temp:t": 1, "user:deep": {"a": [0.5, number]}})
        )
    assert session.events == [] and "temp:t" not in session.state
    assert (await read(service, "s")).state == {}


# ---- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["quipu:x.db", "quipu:/x.db", "quipu://x.db", "quipu:///", "quipu:", "quipu:///a#b.db"],
)
def test_an_address_that_names_no_file_is_refused(
    address: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=re.escape(address)):
        QuipuSessionService(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("ttl=soon", "ttl"),
        ("ttl=0", "ttl"),
        ("deadline=", "deadline"),
        ("max_bytes=1.5", "max_bytes"),
        ("durability=most", "durability"),
        ("search=all", "search"),
        ("read_only=perhaps", "read_only"),
        ("colour=red", "colour"),
    ],
)
def test_an_error_of_an_option_names_it(
    option: str, name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"option {name!r}"):
        QuipuSessionService(f"quipu:///x.db?{option}")
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_constructor_are_named_too(path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="durability"):
        quipu.Store(path, durability="most")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="search"):
        quipu.Store(path, search="all")  # type: ignore[arg-type]


# ---- signals and descriptors ---------------------------------------------------------------------


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_ctrl_c_interrupts_a_call_that_waits(path: pathlib.Path) -> None:
    quipu.Store(path).close()
    done = run_python(
        """
        import os, signal, sqlite3, sys, threading
        import quipu
        holder = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
        holder.execute("begin immediate")
        store = quipu.Store(sys.argv[1], deadline=100)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        late = threading.Timer(20, holder.execute, ("rollback",))  # a call that goes on succeeds
        late.start()
        try:
            store.create("k")
        except KeyboardInterrupt:
            print("interrupted")
        late.cancel()
        holder.execute("rollback")
        print(store.create("k").key)
        """,
        path,
    )
    assert done.stdout.split() == ["interrupted", "k"], done.stderr


def test_a_handler_that_returns_lets_the_call_go_on(path: pathlib.Path) -> None:
    quipu.Store(path).close()
    done = run_python(
        """
        import os, signal, sqlite3, sys, threading
        import quipu
        holder = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
        holder.execute("begin immediate")
        store = quipu.Store(sys.argv[1], deadline=100)
        signal.signal(signal.SIGINT, lambda *given: print("heard", flush=True))
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        threading.Timer(1.0, holder.execute, ("rollback",)).start()
        print(store.create("k").key)
        assert signal.getsignal(signal.SIGINT).__name__ == "<lambda>"
        """,
        path,
    )
    assert done.stdout.split() == ["heard", "k"], done.stderr


def test_running_out_of_descriptors_is_named(path: pathlib.Path) -> None:
    done = run_python(
        """
        import os, resource, sys
        import quipu
        most = len(os.listdir("/proc/self/fd")) + 2
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        try:
            quipu.Store(sys.argv[1])
        except quipu.InputOutput as error:
            print(error)
        """,
        path,
    )
    assert "too many open files" in done.stdout, done.stdout + done.stderr
    assert "rights" not in done.stdout


# ---- the package ---------------------------------------------------------------------------------


async def test_services_and_sessions_are_context_managers(path: pathlib.Path) -> None:
    async with QuipuMemoryService(path) as memory:
        assert isinstance(memory, QuipuMemoryService)
    with pytest.raises(quipu.Misuse, match="closed"):
        await memory.store.list()
    async with QuipuSession("s", path) as session:
        await session.add_items([{"role": "user", "content": "hello"}])
    with pytest.raises(quipu.Misuse, match="closed"):
        await session.get_items()
    async with quipu.AsyncStore(path) as store:
        async with QuipuSession("s", store):
            pass
        assert len(await QuipuSession("s", store).get_items()) == 1


@pytest.mark.parametrize("kind", [quipu.Store, quipu.AsyncStore])
def test_help_shows_public_types_only(kind: type) -> None:
    for name in ("append", "create", "get", "list", "search", "update", "window"):
        shown = str(inspect.signature(getattr(kind, name)))
        assert not re.search(r"\b_[A-Za-z]", shown), shown
    append = str(inspect.signature(kind.append))  # type: ignore[attr-defined]
    assert "messages: 'str | Message | Mapping[str, Any] | Iterable[" in append
    assert append.endswith("-> 'Appended'")


def test_the_distribution_has_its_own_name() -> None:
    assert importlib.metadata.version("quipu-store") == quipu.__version__
    names = importlib.metadata.packages_distributions()["quipu"]
    assert set(names) == {"quipu-store"}


def test_the_wheel_carries_licence_and_notice() -> None:
    files = {str(one) for one in importlib.metadata.files("quipu-store") or ()}
    for name in ("LICENSE", "NOTICE"):
        assert any(re.search(rf"\.dist-info/licenses/{name}$", one) for one in files), files


def test_the_wheel_brings_the_program() -> None:
    files = importlib.metadata.files("quipu-store") or ()
    assert any(str(one).endswith("bin/quipu") for one in files), files
    done = subprocess.run([PROGRAM, "version"], capture_output=True, text=True, check=True)
    assert quipu.__version__ in done.stdout


def test_the_program_says_that_it_has_no_server(path: pathlib.Path) -> None:
    quipu.Store(path).close()
    command = [str(PROGRAM), "serve", "--store", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "without libevent" in done.stderr


def test_the_program_reads_what_the_package_wrote(store: Store, path: pathlib.Path) -> None:
    store.append("talk", "hello penguin", create=True)
    command = [str(PROGRAM), "search", "--store", str(path), "penguin"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "talk" in done.stdout


def test_the_source_distribution_has_all_that_it_is_built_from(tmp_path: pathlib.Path) -> None:
    package = ROOT / "bindings" / "python"
    before = sorted(os.listdir(package))
    code = f"import backend; backend.build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=package, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = tmp_path.glob("quipu_store-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {"LICENSE", "NOTICE", "README.md", "backend.py", "native/native.map"}
    wanted |= {f"libquipu/{name}" for name in ("LICENSE", "apps/quipu/main.c", "layers.txt")}
    wanted |= {f"libquipu/tools/{one.name}" for one in (ROOT / "tools").glob("symbols*.txt")}
    assert wanted <= names, wanted - names
    assert sorted(os.listdir(package)) == before


@pytest.mark.parametrize(
    ("module", "distribution", "old"),
    [("quipu.adk", "google-adk", "1.9.0"), ("quipu.agents", "openai-agents", "0.2.0")],
)
def test_an_older_package_is_named(module: str, distribution: str, old: str) -> None:
    done = run_python(
        """
        import importlib, importlib.metadata, sys
        module, distribution, old = sys.argv[1:]
        true = importlib.metadata.version
        importlib.metadata.version = lambda name: old if name == distribution else true(name)
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(error)
        """,
        module,
        distribution,
        old,
    )
    assert f"{distribution} {old} is installed" in done.stdout, done.stdout + done.stderr
    assert "needs" in done.stdout and "quipu-store[" in done.stdout


def test_a_missing_package_is_named() -> None:
    done = run_python(
        """
        import importlib.metadata

        def version(name):
            raise importlib.metadata.PackageNotFoundError(name)

        importlib.metadata.version = version
        try:
            import quipu.adk
        except ImportError as error:
            print(error)
        """
    )
    assert "google-adk" in done.stdout and "quipu-store[adk]" in done.stdout, done.stderr
