"""Releasing, keeping, pausing, and the two commands that delete messages on request."""

import json

import pytest
import redis

from ackq import Queue
from tests.cli.conftest import Run


def taken(ackq: Run, name: str, *args: str) -> list[str]:
    """Pop one message and return its key and receipt."""
    popped = json.loads(ackq("pop", name, "--json", *args).output)
    return [popped["key"], str(popped["receipt"])]


def states(url: str, name: str) -> tuple[int, int, int, int]:
    with Queue.from_url(url, name) as queue:
        now = queue.stats()
    return now.ready, now.in_flight, now.delayed, now.dead


# --- nack and extend --------------------------------------------------------------


def test_a_message_is_given_back_for_later_or_now_or_never(ackq: Run, name: str, url: str) -> None:
    ackq("push", name, '{"id":"a"}')
    assert ackq("nack", name, *taken(ackq, name), "--release").output == "1\n"
    assert states(url, name) == (1, 0, 0, 0)
    popped = json.loads(ackq("pop", name, "--json", "--lease", "0.01").output)
    assert popped["receive_count"] == 1  # a released delivery does not count
    ackq("nack", name, popped["key"], str(popped["receipt"]), "--release")
    assert ackq("nack", name, *taken(ackq, name), "--delay", "60").output == "1\n"
    assert states(url, name) == (0, 0, 1, 0)
    ackq("push", name, '{"id":"b"}')
    assert ackq("nack", name, *taken(ackq, name), "--dead", "no such customer").output == "1\n"
    assert states(url, name) == (0, 0, 1, 1)
    assert "no such customer" in ackq("dead", "list", name).output


def test_a_nack_without_more_waits_a_second(ackq: Run, name: str) -> None:
    ackq("push", name, '{"id":"a"}')
    ackq("nack", name, *taken(ackq, name))
    ackq("pop", name, code=1)
    popped = json.loads(ackq("pop", name, "--wait", "5", "--json").output)
    assert popped["receive_count"] == 2


def test_a_lease_can_be_made_longer(ackq: Run, name: str) -> None:
    ackq("push", name, '{"id":"a"}')
    settled = taken(ackq, name, "--lease", "5")
    assert ackq("extend", name, *settled, "--lease", "600").output == "1\n"
    peeked = json.loads(ackq("peek", name, "--state", "in_flight", "--json").output)
    assert peeked["at"] > int(settled[1]) / 1_000_000 + 500
    assert ackq("ack", name, *settled).output == "1\n"
    assert "'a'" in ackq("extend", name, *settled, code=3).stderr


@pytest.mark.parametrize("command", ["ack", "nack", "extend"])
def test_what_is_not_in_flight_and_a_stale_receipt_are_refused(
    ackq: Run, name: str, command: str
) -> None:
    ackq("push", name, '{"id":"a"}')
    stale = taken(ackq, name, "--lease", "0.05")
    settled = taken(ackq, name, "--wait", "5")
    assert "refused for 'a'" in ackq(command, name, *stale, code=3).stderr
    # A command knows nothing of those before it: this may have been settled by anybody.
    assert ackq("ack", name, *settled).output == "1\n"
    assert "refused for 'a'" in ackq(command, name, *settled, code=3).stderr


# --- pause, resume, purge ---------------------------------------------------------


def test_a_paused_queue_gives_nothing_until_it_is_resumed(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    ackq("push", name, '{"id":"a"}')
    ackq("pause", name)
    ackq("pop", name, code=1)
    assert json.loads(ackq("stats", name, "--json").output)["paused"] is True
    ackq("resume", name)
    assert not plain_client.exists(f"{name}PAUSED")
    assert ackq("pop", name).output == '{"id":"a"}\n'


def test_a_purge_needs_a_confirmation(ackq: Run, name: str, url: str) -> None:
    ackq("push", name, '{"id":"a"}', '{"id":"b"}')
    ackq("nack", name, *taken(ackq, name), "--dead", "")
    assert "--yes" in ackq("purge", name, code=2).stderr
    assert states(url, name) == (1, 0, 0, 1)
    assert ackq("purge", name, "--yes").output == "1\n"
    assert states(url, name) == (0, 0, 0, 1)
    assert ackq("purge", name, "--dead", "--yes").output == "1\n"
    assert states(url, name) == (0, 0, 0, 0)


# --- dead -------------------------------------------------------------------------


@pytest.fixture
def letters(ackq: Run, name: str) -> list[str]:
    """The entries of three dead letters: a, b and c."""
    for each in "abc":
        ackq("push", name, f'{{"id":"{each}","text":"one\\ntwo\\u001b"}}')
        ackq("nack", name, *taken(ackq, name), "--dead", f"reason {each}")
    listed = ackq("dead", "list", name, "--oldest", "--json").output.splitlines()
    return [json.loads(line)["entry"] for line in listed]


def test_dead_letters_are_listed_and_shown(ackq: Run, name: str, letters: list[str]) -> None:
    newest = ackq("dead", "list", name, "-n", "2", "--json").output.splitlines()
    assert [json.loads(line)["id"] for line in newest] == ["c", "b"]
    shown = ackq("dead", "show", name, letters[1], "0-1").output
    assert "reason b" in shown
    assert '{"id":"b"' in shown
    assert "reason a" not in shown
    assert json.loads(ackq("dead", "show", name, letters[2], "--json").output)["id"] == "c"
    assert ackq("dead", "show", name, "0-1", code=1).output == ""


def test_dead_letters_are_redriven_one_or_some_or_all(
    ackq: Run, name: str, letters: list[str], url: str
) -> None:
    assert ackq("dead", "redrive", name, letters[1]).output == "1\n"
    assert json.loads(ackq("pop", name).output)["id"] == "b"
    assert ackq("dead", "redrive", name, "--cause", "reason").output == "0\n"
    assert ackq("dead", "redrive", name, "--cause", "reason a").output == "1\n"
    assert json.loads(ackq("pop", name).output)["id"] == "a"
    assert ackq("dead", "redrive", name, "--all").output == "1\n"
    assert states(url, name) == (1, 2, 0, 0)


def test_dead_letters_are_dropped_one_or_all(
    ackq: Run, name: str, letters: list[str], url: str
) -> None:
    assert ackq("dead", "drop", name, letters[1]).output == "1\n"
    assert "--yes" in ackq("dead", "drop", name, "--cause", "reason c", code=2).stderr
    assert "--yes" in ackq("dead", "drop", name, "--all", code=2).stderr
    assert states(url, name) == (0, 0, 0, 2)
    assert ackq("dead", "drop", name, "--cause", "reason c", "--yes").output == "1\n"
    assert ackq("dead", "drop", name, "--all", "--yes").output == "1\n"
    assert states(url, name) == (0, 0, 0, 0)
