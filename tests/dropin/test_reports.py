"""Calls that the drop-in cannot protect are reported, once each, with the user's line."""

import copy
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


UNPROTECTED: dict[str, Callable[[Any, str], object]] = {
    "rpop": lambda r, name: r.pipeline().rpop(name).execute(),
    "lpop": lambda r, name: r.transaction(lambda pipe: pipe.lpop(name, 2), f"{name}-x"),
    "brpop": lambda r, name: r.execute_command("brpop", f"{name}-x", name, 1),
    "blpop": lambda r, name: r.pipeline(transaction=False).blpop([name]).execute(),
    "lmove": lambda r, name: r.pipeline().lmove(name, f"{name}-x").execute(),
    "lmpop": lambda r, name: r.lmpop(2, f"{name}-x", name, direction="RIGHT"),
    "blmpop": lambda r, name: r.blmpop(1, 1, name, direction="RIGHT", count=2),
}


@pytest.mark.parametrize("command", UNPROTECTED)
def test_what_takes_from_a_list_past_ackq_is_reported(
    r: dropin.Redis, name: str, plain_client: redis.Redis, command: str
) -> None:
    """Once for each list, wherever the command stands."""
    version = int(plain_client.info("server")["redis_version"].split(".")[0])
    if command.endswith("mpop") and version < 7:
        pytest.skip("LMPOP came with Redis 7")
    r.lpush(name, "a", "b", "c", "d")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            UNPROTECTED[command](r, name)
    texts = [text for text, _ in reported(caught)]
    assert [text.split(" from ")[0] for text in texts if repr(name) in text] == [
        f"{command} takes messages"
    ]


def test_a_pipeline_that_takes_nothing_is_not_reported(r: dropin.Redis, name: str) -> None:
    assert isinstance(r.pipeline(), redis.client.Pipeline)
    pipe: Any = r.pipeline()
    assert pipe.lpush(name, "a").llen(name).lrange(name, 0, -1).execute() == [1, 1, [b"a"]]
    with r.pipeline() as watching:
        watching.watch(name)
        assert watching.type(name) == b"list"


def test_a_warning_as_an_error_pops_nothing(r: dropin.Redis, name: str) -> None:
    """pytest's settings turn warnings into errors here."""
    r.lpush(name, "a", "b")
    for call in (*MOVES.values(), *UNPROTECTED.values()):
        with pytest.raises(dropin.UnprotectedWarning):
            call(copy.copy(r), name)
    assert r.llen(name) == 2
