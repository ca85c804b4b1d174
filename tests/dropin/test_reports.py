"""Calls that the drop-in cannot protect are reported, once each, with the user's line."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import dropin
from ackq.dropin import reports


def reported(caught: list[warnings.WarningMessage]) -> list[tuple[str, int]]:
    """Return the texts and lines of the reports, and check their file."""
    reports = [each for each in caught if issubclass(each.category, dropin.UnprotectedWarning)]
    assert {report.filename for report in reports} <= {__file__}
    return [(str(report.message), report.lineno) for report in reports]


def test_a_thread_with_messages_of_many_lists(r: dropin.Redis, name: str) -> None:
    count = reports.MANY_LISTS
    for number in range(count + 5):
        r.lpush(f"{name}-{number}", "a")
    for number in range(count):
        assert r.rpop(f"{name}-{number}") == b"a"
    with pytest.warns(dropin.UnprotectedWarning, match="more than 100 lists"):
        assert r.rpop(f"{name}-{count}") == b"a"
    assert all(r.rpop(f"{name}-{number}") is None for number in range(count + 1))
    for number in range(count + 1, count + 5):
        assert r.rpop(f"{name}-{number}") == b"a"


def test_lists_that_are_used_once_leave_nothing_behind(r: dropin.Redis, name: str) -> None:
    before = r.info("clients")["connected_clients"]
    for number in range(3 * reports.MANY_LISTS):
        reply = f"{name}-{number}"
        r.lpush(reply, "a")
        with r.batch(reply):
            assert r.brpop(reply) == (reply.encode(), b"a")
    assert not r.keys(f"{name}*")
    assert r.info("clients")["connected_clients"] <= before + 5


MOVES: dict[str, Callable[[Any, str], object]] = {
    "rpoplpush": lambda r, name: r.rpoplpush(name, f"{name}-x"),
    "brpoplpush": lambda r, name: r.brpoplpush(name, f"{name}-x", 1),
    "lmove": lambda r, name: r.lmove(name, f"{name}-x", "RIGHT", "LEFT"),
    "blmove": lambda r, name: r.blmove(name, f"{name}-x", 1, "RIGHT", "LEFT"),
}


@pytest.mark.parametrize("command", MOVES)
def test_reliable_list_commands_are_reported(r: dropin.Redis, name: str, command: str) -> None:
    r.lpush(name, "a", "b")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [MOVES[command](r, name) for _ in range(2)] == [b"a", b"b"]
    ((text, _),) = reported(caught)
    assert text.startswith(command)
    assert repr(name) in text


def test_commands_that_pop_from_several_lists_are_reported(
    r: dropin.Redis, name: str, plain_client: redis.Redis
) -> None:
    if int(plain_client.info("server")["redis_version"].split(".")[0]) < 7:
        pytest.skip("LMPOP came with Redis 7")
    r.lpush(name, "a", "b")
    with pytest.warns(dropin.UnprotectedWarning, match="^lmpop takes"):
        r.lmpop(1, name, direction="RIGHT")
    r.lpush(f"{name}-2", "a")  # once for each list
    with pytest.warns(dropin.UnprotectedWarning, match="^blmpop takes"):
        r.blmpop(1, 1, f"{name}-2", direction="RIGHT")


def test_a_warning_as_an_error_pops_nothing(r: dropin.Redis, name: str) -> None:
    """pytest's settings turn warnings into errors here."""
    r.lpush(name, "a", "b")
    with pytest.raises(dropin.UnprotectedWarning):
        r.rpoplpush(name, f"{name}-x")
    assert r.llen(name) == 2
