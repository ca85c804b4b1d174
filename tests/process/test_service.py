"""What ``ackq work`` reports to systemd."""

import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from ackq.embedded import Server
from tests.waiting import wait_until

from .commands import working

QUICK = "tests.process.jobs:quick"
pytestmark = pytest.mark.timeout(120)


class Manager:
    """The service manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.settimeout(20)
        self.variables = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"}

    def next(self) -> str:
        return self._socket.recv(100).decode()

    def until(self, text: str) -> list[str]:
        """Return what comes before the text."""
        before = []
        while (found := self.next()) != text:
            before.append(found)
        return before

    def silent(self, seconds: float) -> bool:
        """Return whether nothing comes for that long."""
        self._socket.settimeout(seconds)
        try:
            self.next()
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(getattr(request, "param", str(tmp_path / "notify")))
    yield manager
    manager.close()


@pytest.mark.parametrize("manager", [f"@ackq-{uuid4()}"], indirect=True, ids=["abstract"])
def test_systemd_learns_when_all_processes_work_and_when_they_stop(
    tmp_path: Path, server: Server, token: str, manager: Manager
) -> None:
    options = ("-q", token, "--processes", "2")
    with working(tmp_path, server.url, QUICK, *options, variables=manager.variables) as command:
        assert set(manager.until("READY=1")) <= {"WATCHDOG=1"}
        files = list(tmp_path.glob("ackq-work-*/[01]"))
        assert len(files) == 2, "ready before each process works"
        assert manager.next() == "WATCHDOG=1"
        command.process.terminate()
        manager.until("STOPPING=1")
        assert command.wait() == 0


def test_the_watchdog_is_not_fed_while_a_process_hangs(
    tmp_path: Path, server: Server, token: str, manager: Manager
) -> None:
    options = ("-q", token, "--processes", "2", "--stalled-after", "3")
    with working(tmp_path, server.url, QUICK, *options, variables=manager.variables) as command:
        manager.until("READY=1")
        frozen = command.children()[0]
        frozen.suspend()
        wait_until(lambda: manager.silent(0.5), "the watchdog to be left alone", 30)
        frozen.resume()
        wait_until(lambda: not manager.silent(0.5), "the watchdog to be fed", 30)


def test_a_handler_that_does_not_exist_is_never_ready(
    tmp_path: Path, server: Server, token: str, manager: Manager
) -> None:
    options = ("-q", token)
    missing = "tests.process.jobs:missing"
    with working(tmp_path, server.url, missing, *options, variables=manager.variables) as command:
        # Read while it runs: the kernel keeps few unread messages, and drops the others.
        assert set(manager.until("STOPPING=1")) <= {"WATCHDOG=1"}
        assert command.wait() == 3
