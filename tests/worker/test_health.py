"""The health check is red if work is stuck, and only then."""

import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import ackq
from ackq.errors import ConfigurationError
from ackq.worker import Health
from ackq.worker import health as health_module
from tests.servers import private_server
from tests.waiting import wait_until
from tests.worker.conftest import Rig, StartWorker

from .conftest import Silencer, push, settled, until


def ask(health: Health) -> tuple[int, dict[str, Any]]:
    assert health.address is not None
    host, port = health.address
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/", timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_it_is_red_only_while_ready_messages_are_not_taken(tmp_path: Path, rig: Rig) -> None:
    queue = rig.queue_of()
    go_on = threading.Event()
    rig.handler.behave = lambda message: until(go_on)
    file = tmp_path / "healthy"
    health = Health(file=file, port=0, stalled_after=0.5, interval=0.05)
    made = rig.work(queue, concurrency=1, health=health)
    wait_until(file.exists, "the file of an idle worker")
    assert ask(health) == (200, {"healthy": True, "reason": "", "troubles": []})
    idle = wait_until(lambda: health._next, "a look") + 0.7
    wait_until(lambda: health._next > idle, "a long idleness")
    assert file.exists()

    push(queue, 5)  # one runs, four are ready
    rig.handler.wait_for(1)
    wait_until(lambda: not file.exists(), "red")
    status, answer = ask(health)
    assert status == 503
    assert "4 in" in answer["reason"]

    queue.pause()
    wait_until(file.exists, "green while paused")
    queue.resume()
    wait_until(lambda: not file.exists(), "red again")
    go_on.set()
    wait_until(file.exists, "green again")
    assert ask(health)[0] == 200
    wait_until(lambda: settled(queue), "all")
    made.stop()
    made.join()
    assert not file.exists()
    assert health.address is None


def test_a_loop_that_hangs_is_red() -> None:
    health = Health(port=0, stalled_after=0.001, interval=0.001)
    assert wait_until(lambda: health.reason, "red").startswith("the worker's loop")
    health.show("")
    health._seen += 10
    assert not health.reason


def test_a_silent_connection_is_red_and_a_server_that_is_away_is_not(
    tmp_path: Path, work: StartWorker, portal: Any, flavour: str
) -> None:
    with private_server(tmp_path) as server, Silencer(server.port or 0) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}"
        kind: Any = ackq.Queue if flavour == "sync" else ackq.AsyncQueue
        queue = portal.call(kind.from_url, url + "?socket_timeout=300", "jobs")
        try:
            health = Health(port=0, file=tmp_path / "healthy", stalled_after=0.3, interval=0.05)
            made = work(queue, print, health=health)
            (lane,) = made.worker._state.lanes
            wait_until((tmp_path / "healthy").exists, "green")
            proxy.silent.set()
            wait_until(lambda: not (tmp_path / "healthy").exists(), "red")
            assert ask(health)[0] == 503
            proxy.close()
            server.kill()
            wait_until(lambda: lane.failures >= 3, "the server to be away")
            wait_until((tmp_path / "healthy").exists, "green")
            assert ask(health)[0] == 200
            made.stop()
            made.join()
        finally:
            portal.call(queue.close if flavour == "sync" else queue.aclose)


def connected(health: Health) -> socket.socket:
    assert health.address is not None
    return socket.create_connection(health.address, timeout=30)


def test_only_documented_paths_are_answered_and_no_version_is_shown() -> None:
    with Health(port=0) as health:
        answers = {}
        for path in ("/", "/healthz", "/healthz?verbose=1", "/metrics", "/metric", "/healthz/"):
            with connected(health) as connection:
                connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                answer = connection.makefile("rb").read()
            answers[path] = int(answer.split()[1])
            assert b"Server: ackq\r\n" in answer
            assert b"Python" not in answer
    assert answers == {
        "/": 200,
        "/healthz": 200,
        "/healthz?verbose=1": 200,
        "/metrics": 200,
        "/metric": 404,
        "/healthz/": 404,
    }


def test_a_connection_that_asks_for_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "MAX_CONNECTION", 0.05)
    with Health(port=0) as health:
        for begun in (b"", b"GET / HTT"):
            with connected(health) as connection:
                connection.sendall(begun)
                with contextlib.suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
        server = health._server
        assert server is not None
        wait_until(lambda: not server.connections, "both to be forgotten")


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_the_port_may_be_on_another_address(host: str) -> None:
    try:
        with Health(port=0, host=host) as health, connected(health) as connection:
            assert connection.getpeername()[0] == host
    except ConfigurationError:
        if host != "::1":  # a machine without IPv6
            raise


def test_only_a_change_of_state_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    health = Health(port=0)
    for reason in ("", "none taken for 60 s", "none taken for 61 s", "", ""):
        health.show(reason)
    assert [record.message for record in caplog.records] == [
        "health: none taken for 60 s",
        "health: healthy again",
    ]
    assert health.reason == ""


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no file can be made in .*absent"):
        Health(file=tmp_path / "absent" / "healthy")
    with pytest.raises(ConfigurationError, match="needs a file or a port"):
        Health()


def test_a_folder_that_is_gone_does_not_end_the_worker(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    health = Health(file=folder / "healthy")
    health.show("")
    assert (folder / "healthy").read_text() == "ok\n"
    (folder / "healthy").unlink()
    folder.rmdir()
    health.show("")
    folder.write_text("")  # no longer a folder
    for reason in ("why", ""):
        health.show(reason)
        assert health.reason == reason


def test_a_port_that_is_in_use_is_refused_before_anything_is_taken(rig: Rig) -> None:
    queue = rig.queue(3)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        made = rig.work(queue, start=False, health=Health(port=port))
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}: Address already in use"):
            made.drain()
    assert rig.handler.seen == []
    assert queue.stats().ready == 3
