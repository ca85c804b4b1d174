"""find: where a message of RSMQ is, on every server."""

from typing import Any

import pytest

from ackq.errors import ConfigurationError, InvalidFormat
from tests.rsmq.conftest import MakeRSMQ
from tests.servers import Target


def test_a_message_is_found_wherever_it_is(make_rsmq: MakeRSMQ, name: str) -> None:
    rsmq = make_rsmq(max_receives=1)
    rsmq.create_queue("q", vt=600)
    first, second, later = (rsmq.send_message("q", text) for text in ("1", "2", "3"))
    rsmq.change_message_visibility("q", later, 600)
    found = [rsmq.find("q", id) for id in (first, second, later)]
    assert [each and (each.state, each.position, each.body) for each in found] == [
        ("ready", 0, b"1"),
        ("ready", 1, b"2"),
        ("delayed", None, b"3"),
    ]
    assert found[2] is not None
    assert 590 < (found[2].due_in or 0) <= 600
    assert found[2].queue == f"{name}:q"
    assert rsmq.receive_message("q").id == first
    held = rsmq.find("q", first)
    assert held is not None
    assert (held.state, held.receive_count, held.position) == ("in_flight", 1, None)
    assert 590 < (held.lease_ends_in or 0) <= 600
    rsmq.change_message_visibility("q", first, 0, error=ValueError("why"))
    again = rsmq.find("q", first)
    assert again is not None
    assert (again.state, again.errors[0].type) == ("ready", "ValueError")
    assert rsmq.receive_message("q").id == second
    assert rsmq.receive_message("q") is None  # the first one died
    dead = rsmq.find("q", first)
    assert dead is not None
    assert (dead.state, dead.reason, dead.errors) == ("dead", "received too often", again.errors)
    assert rsmq.redrive("q", entries=[dead.entry]) == 1
    redriven = rsmq.find("q", first)
    assert redriven is not None
    assert (redriven.state, redriven.receive_count) == ("ready", 0)
    rsmq.delete_message("q", first)
    assert rsmq.find("q", first) is None
    assert rsmq.find("none", first) is None


def test_dead_letters_are_searched_from_the_newest_on(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq()
    ids = [f"{number:032}" for number in range(250)]
    for id in ids:
        fields: dict[Any, Any] = {"id": id, "body": "x", "rc": "?", "fr": "1", "time": "1"}
        target.control.xadd(f"{name}:q:Q.dead", fields)
    assert rsmq.find("q", ids[0]) is not None
    assert rsmq.find("q", ids[0], within=None) == rsmq.find("q", ids[0], within=250)
    looked: list[int] = []
    assert rsmq.find("q", ids[0], within=249, on_progress=looked.append) is None
    assert sum(looked) == 249
    assert rsmq.find("q", "a" * 32) is None


def test_what_cannot_be_found_is_refused(make_rsmq: MakeRSMQ) -> None:
    rsmq = make_rsmq()
    with pytest.raises(InvalidFormat):
        rsmq.find("q", "short")
    with pytest.raises(ConfigurationError):
        rsmq.find("q", "a" * 32, within=0)
