"""The server's clock is set back: a dead member is noticed as soon as at any other time."""

import pytest

from tests.membership.scripted import NOW, SECOND, Group


def join(group: Group, now: int, session: str) -> set[bytes]:
    """Let ``session`` join or stay at that time; return the members."""
    group.join(session, now=now)
    return set(group.sessions())


@pytest.mark.parametrize("back", [1, 600 * SECOND, 3600 * SECOND])
def test_a_dead_member_is_found_in_the_length_of_a_session(group: Group, back: int) -> None:
    join(group, NOW, "dead")
    assert join(group, NOW, "one") == {b"dead", b"one"}
    for second in range(1, 10):
        assert join(group, NOW - back + second * SECOND, "one") == {b"dead", b"one"}
    assert join(group, NOW - back + 11 * SECOND, "one") == {b"one"}


def test_a_session_that_is_over_is_not_prolonged_by_a_step(group: Group) -> None:
    join(group, NOW, "dead")
    join(group, NOW + 9 * SECOND, "one")
    assert join(group, NOW - 600 * SECOND, "one") == {b"dead", b"one"}  # a second is left
    assert join(group, NOW - 598 * SECOND, "one") == {b"one"}


def test_a_step_ends_nobodys_session_early(group: Group) -> None:
    join(group, NOW, "one")
    join(group, NOW + 3 * SECOND, "other")
    join(group, NOW - 600 * SECOND, "one")
    assert group.sessions() == {b"one": NOW - 590 * SECOND, b"other": NOW - 590 * SECOND}


def test_a_clock_that_goes_on_changes_no_others_session(group: Group) -> None:
    join(group, NOW, "one")
    join(group, NOW + 3 * SECOND, "other")
    assert group.sessions() == {b"one": NOW + 10 * SECOND, b"other": NOW + 13 * SECOND}
