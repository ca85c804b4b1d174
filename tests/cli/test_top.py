"""``ackq top`` finds the right queues and shows true figures."""

import io
import json
import os
import pty
import select
import signal
import sys
import termios
from collections.abc import Iterator
from typing import Self

import pytest
import redis
from redis.exceptions import NoPermissionError

from ackq import Queue
from ackq.cli import top
from ackq.cli.keyboard import keys, names
from ackq.cli.top import _searching
from ackq.cli.top.screen import Screen
from ackq.errors import AckqError
from ackq.ops.acl import rules
from ackq.ops.readings import Reading
from ackq.ops.samples import UNKNOWN, Row
from tests import forked
from tests.cli.conftest import Run
from tests.listed import list_worker
from tests.ops.acl.conftest import has_selectors
from tests.waiting import wait_until


@pytest.fixture
def busy(plain_client: redis.Redis, name: str) -> Iterator[Queue]:
    """A queue with two ready, one in flight, one delayed, one dead."""
    with Queue(plain_client, name, visibility_timeout=600) as queue:
        queue.push_many([{"id": each} for each in "abcd"])
        queue.push({"id": "later"}, delay=600)
        queue.reject(*queue.pop_many(1))
        queue.pop()
        yield queue


def test_a_queue_is_found_by_its_side_keys(ackq: Run, busy: Queue) -> None:
    rows = [json.loads(line) for line in ackq("top", "--json").output.splitlines()]
    (row,) = [each for each in rows if each["queue"] == busy.name]
    assert (row["ready"], row["in_flight"], row["delayed"], row["dead"]) == (2, 1, 1, 1)
    assert 590 < row["lease_ends_in"] <= 601
    shown = next(
        line for line in ackq("top").output.splitlines() if line.startswith(f"{busy.name}\t")
    )
    assert shown == f"{busy.name}\t2\t1\t1\t1\t-\t-\t-\t-\t-\t\tlist\t-\t0"


def test_a_bare_list_is_only_counted_when_it_is_named_and_gets_no_time(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    plain_client.lpush(name, "a", "b")
    assert name not in ackq("top").output
    row = json.loads(ackq("top", name, "--json").output)
    assert (row["ready"], row["lease_ends_in"], row["next_event_in"]) == (2, None, None)


def test_what_only_looks_like_a_queue_is_passed_over(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    plain_client.set(f"{name}BACKUP", "text")
    plain_client.zadd(f"{name}*BACKUP", {"x": 1})
    assert name not in ackq("top").output
    assert "BACKUP" in ackq("top", name, code=3).stderr


# --- selection and keys ------------------------------------------------------


def rows_of(*backlogs: int) -> list[Row]:
    return [
        Row(Reading("list", f"q{n}", each, {"dead": 9 - n}), UNKNOWN)
        for n, each in enumerate(backlogs)
    ]


def test_keys_move_the_selection_and_the_rows_follow() -> None:
    rows = rows_of(*range(40, 0, -1))

    screen = Screen("backlog")
    for key, at, first in [
        ("down", 1, 0),
        ("page down", 11, 2),
        ("up", 10, 2),
        ("end", 39, 30),
        ("page up", 29, 29),
        ("home", 0, 0),
        ("up", 0, 0),
    ]:
        screen = screen.press(key, rows, 10)
        screen = screen.fitted(len(rows), 10, screen.at(rows))
        assert (key, screen.at(rows), screen.first) == (key, at, first)
    screen = screen.press("j", rows, 10)
    assert screen.at([rows[1], rows[0]]) == 0  # it stays selected when it moves
    opened = screen.press("enter", rows, 10)
    assert (opened.opened, opened.selected) == (True, rows[1].key)
    scrolled = opened.press("page down", rows, 10).fitted(15, 10)
    assert scrolled.first == 5
    assert not scrolled.press("escape", rows, 10).opened
    assert screen.press("s", rows, 10).sort == "dead"
    assert screen.press("S", rows, 10).sort == "kind"
    assert screen.press("r", rows, 10).reverse
    assert screen.press("enter", [], 10) == screen


def test_terminals_send_names_of_keys() -> None:
    assert names("\x1b[A\x1bOBjq\x1b[6~\x1b[99~\r\x1b") == [
        "up",
        "down",
        "j",
        "q",
        "page down",
        "enter",
        "escape",
    ]


@pytest.mark.parametrize("role", ["monitor", "watcher"])
def test_a_user_who_may_not_search_is_asked_to_name_queues(
    ackq: Run, plain_client: redis.Redis, url: str, busy: Queue, role: str
) -> None:
    user = f"{busy.name}-{role}"
    selectors = has_selectors(plain_client)
    words = [*rules(busy.name, role, selectors=selectors), ">secret"]
    plain_client.execute_command("ACL", "SETUSER", user, *words)
    try:
        as_user = url.replace("://", f"://{user}:secret@")
        assert "name the queues" in ackq("top", "--url", as_user, code=3).stderr
        assert ackq("top", busy.name, "--url", as_user).output.startswith(busy.name)
    finally:
        plain_client.acl_deluser(user)


def test_two_looks_apart_give_rates_and_one_leaves_nothing(
    ackq: Run, busy: Queue, plain_client: redis.Redis
) -> None:
    ackq("top", busy.name, "--once")
    assert not plain_client.exists(f"{busy.name}COUNTERS")
    row = json.loads(ackq("top", busy.name, "--json", "--every", "0.1").output)
    assert row["acked_per_second"] == 0
    assert 0 < plain_client.pttl(f"{busy.name}COUNTERS") < 10_000


def test_one_call_sorts_by_troubles(
    ackq: Run, busy: Queue, plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "LOOK", 0.1)
    with Queue(plain_client, f"{name}-unserved") as unserved:
        unserved.push({"id": "a"})
        unserved.release(*unserved.pop_many(1))
        names = (busy.name, unserved.name)
        lines = ackq("top", *names, "--once", "--sort", "failing", "--json").output.splitlines()
    rows = [(row["queue"], row["troubles"]) for row in map(json.loads, lines)]
    assert rows == [(unserved.name, ["no_worker"]), (busy.name, [])]


def test_a_pipe_gets_whole_numbers(ackq: Run, url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push_many([{"id": number} for number in range(1234)])
        queue.pop()
    assert ackq("top", name, "--once").output.split("\t")[:4] == [name, "1233", "1", "0"]


class Terminal:
    """``ackq top`` in a pty."""

    def __init__(
        self, url: str, terminal: str = "xterm-256color", size: tuple[int, int] = (120, 40)
    ) -> None:
        self.parent, self.child = pty.openpty()
        self.before = termios.tcgetattr(self.child)
        columns, lines = map(str, size)
        code = "from ackq.cli import main; main()"
        self.process = forked.Popen(
            [sys.executable, "-c", code, "top", "--every", "0.1", "--url", url],
            stdin=self.child,
            stdout=self.child,
            stderr=self.child,
            env={**os.environ, "COLUMNS": columns, "LINES": lines, "TERM": terminal},
        )
        self.shown = b""

    def press(self, keys: bytes) -> None:
        """Press keys, and forget what was shown before."""
        self.shown = b""
        os.write(self.parent, keys)

    def wait_for(self, *words: bytes) -> None:
        """Wait until all words were shown since the last key."""

        def seen() -> bool:
            if not all(word in self.shown for word in words):
                self.shown += os.read(self.parent, 65536)
            return all(word in self.shown for word in words)

        wait_until(seen, f"{words} to be shown", 90)

    def exit_code(self) -> int | None:
        """Wait until the command ends. It could not, if nothing read what it still shows."""

        def ended() -> bool:
            if select.select([self.parent], [], [], 0)[0]:
                os.read(self.parent, 65536)
            return self.process.poll() is not None

        wait_until(ended, "the command to end", 10)
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.child)
        os.close(self.parent)


@pytest.mark.parametrize("key", [b"q", b"Q", None], ids=str)
@pytest.mark.parametrize("terminal", ["xterm-256color", "dumb"])
def test_in_a_terminal_it_goes_on_until_q_or_ctrl_c(
    busy: Queue, url: str, terminal: str, key: bytes | None
) -> None:
    with Terminal(url, terminal) as top:
        top.wait_for(busy.name.encode(), b"commands/s")
        assert (b"\x1b" in top.shown) == (terminal != "dumb")
        if key is None:
            top.process.send_signal(signal.SIGINT)
        else:
            top.press(b"x" + key)
        assert top.exit_code() == 0
        assert termios.tcgetattr(top.child) == top.before


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_a_queue_is_opened_with_causes_and_workers(
    busy: Queue, url: str, size: tuple[int, int]
) -> None:
    list_worker(busy, "w1", [("order-17", 4.0)], name="mailer", concurrency=3)
    with Terminal(url, size=size) as top:
        top.wait_for(busy.name.encode(), b"by backlog")
        top.press(b"\r")
        top.wait_for(
            b"Dead letters by cause",
            b"no reason given",
            b"mailer  working  1 of 3 busy",
            b"order-17",
            b"back",
        )
        top.press(b"\x1b")
        top.wait_for(b"by backlog")
        top.press(b"s")
        top.wait_for(b"by dead")
        top.press(b"q")
        assert top.exit_code() == 0


def test_only_a_lack_of_rights_is_answered_with_advice() -> None:
    for queues, error, raised in (
        ((), NoPermissionError("no"), AckqError),
        (("jobs",), NoPermissionError("no"), NoPermissionError),
        ((), redis.ConnectionError("away"), redis.ConnectionError),
    ):
        advice = "name the queues" if raised is AckqError else None
        with pytest.raises(raised, match=advice), _searching(queues):
            raise error


def test_without_a_terminal_the_view_waits_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("time.sleep", slept.append)
    with keys() as pressed:
        assert pressed(0.3) == ()
    assert slept == [0.3]
