"""The server's clock is set back: a dead member is noticed as soon as at any other time."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from ackq import scripts

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
SESSION = 10 * SECOND


class Group:
    """A group whose server shows any time that a test likes."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client = client
        self.keys = [f"{name}:members", f"{name}:group", f"{name}:owners"]

    def heartbeat(self, now: int, session: str) -> set[bytes]:
        """Let ``session`` join or stay at that time; return the members."""
        clock = f"{{'{now // SECOND}', '{now % SECOND}'}}"
        text = scripts.load("members/heartbeat").text.decode()
        assert text.count("redis.call('TIME')") == 1
        text = text.replace("redis.call('TIME')", clock)
        reply: Any = self.client.eval(text, 3, *self.keys, session, SESSION, 4, 1, 0)
        assert reply[0] == b"ok"
        return set(reply[4])

    def ends(self) -> dict[bytes, float]:
        pairs: Any = self.client.zrange(self.keys[0], 0, -1, withscores=True)
        return dict(pairs)


@pytest.fixture
def group(plain_client: redis.Redis, token: str) -> Group:
    return Group(plain_client, token)


@pytest.mark.parametrize("back", [1, 600 * SECOND, 3600 * SECOND])
def test_a_dead_member_is_found_in_the_length_of_a_session(group: Group, back: int) -> None:
    group.heartbeat(NOW, "dead")
    assert group.heartbeat(NOW, "one") == {b"dead", b"one"}
    for second in range(1, 10):
        assert group.heartbeat(NOW - back + second * SECOND, "one") == {b"dead", b"one"}
    assert group.heartbeat(NOW - back + 11 * SECOND, "one") == {b"one"}


def test_a_session_that_is_over_is_not_prolonged_by_a_step(group: Group) -> None:
    group.heartbeat(NOW, "dead")
    group.heartbeat(NOW + 9 * SECOND, "one")
    assert group.heartbeat(NOW - 600 * SECOND, "one") == {b"dead", b"one"}  # a second is left
    assert group.heartbeat(NOW - 598 * SECOND, "one") == {b"one"}


def test_a_step_ends_nobodys_session_early(group: Group) -> None:
    group.heartbeat(NOW, "one")
    group.heartbeat(NOW + 3 * SECOND, "other")
    group.heartbeat(NOW - 600 * SECOND, "one")
    assert group.ends() == {b"one": NOW - 590 * SECOND, b"other": NOW - 590 * SECOND}


def test_a_clock_that_goes_on_changes_no_others_session(group: Group) -> None:
    group.heartbeat(NOW, "one")
    group.heartbeat(NOW + 3 * SECOND, "other")
    assert group.ends() == {b"one": NOW + 10 * SECOND, b"other": NOW + 13 * SECOND}
