"""Why messages of RSMQ failed: kept beside RSMQ's own keys, and with the dead letters."""

import json
from typing import Any

import pytest

import ackq
from tests.rsmq.conftest import MakeRSMQ
from tests.servers import Target


def fail(rsmq: Any, error: Exception | None, vt: int = 0) -> str:
    """Receive a message, fail and make it visible again, as a consumer does."""
    message = rsmq.receive_message("q", vt=60)
    try:
        if error is not None:
            raise error
    except ValueError as raised:
        error = raised
    assert rsmq.change_message_visibility("q", message.id, vt, error=error)
    return str(message.id)


def test_a_dead_letter_tells_why_its_last_five_receives_failed(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq(max_receives=7)
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    for number in range(7):
        fail(rsmq, ValueError(f"no {number}"))
    assert rsmq.receive_message("q") is None
    [letter] = rsmq.dead_letters("q")
    assert [error.text for error in letter.errors] == [f"no {number}" for number in range(2, 7)]
    assert [error.attempt for error in letter.errors] == [3, 4, 5, 6, 7]
    assert letter.cause.startswith("ValueError at ")
    assert abs(letter.errors[-1].at - letter.died_at / 1000) < 20
    assert not target.control.exists(f"{name}:q:Q.errors")
    assert rsmq.redrive("q") == 1
    for _ in range(7):
        fail(rsmq, None)
    assert rsmq.receive_message("q") is None
    [letter] = rsmq.dead_letters("q")
    assert (letter.errors, letter.cause) == ((), "received too often")


def test_a_timeout_after_an_error_is_the_cause(make_rsmq: MakeRSMQ) -> None:
    rsmq = make_rsmq(max_receives=2)
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    fail(rsmq, ValueError("no"))
    rsmq.receive_message("q", vt=0)
    assert rsmq.receive_message("q") is None
    [letter] = rsmq.dead_letters("q")
    assert [(error.attempt, error.type) for error in letter.errors] == [(1, "ValueError"), (2, "")]
    assert letter.cause == "lease ended"


def test_an_error_that_is_reported_twice_for_one_receive_is_kept_once(
    make_rsmq: MakeRSMQ, target: Target, name: str
) -> None:
    rsmq = make_rsmq(record_errors="type")
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "secret")
    rsmq.receive_message("q", vt=60)
    for text in ("first", "second"):
        assert rsmq.change_message_visibility("q", id, 60, error=KeyError(text))
    note: Any = target.control.hget(f"{name}:q:Q.errors", id)
    attempt, _, stored = note.split(b":", 2)
    assert attempt == b"1"
    assert b"\n" not in note
    assert json.loads(stored)["type"] == "KeyError"
    assert b"second" not in note
    with pytest.raises(ackq.ConfigurationError, match="record_errors"):
        make_rsmq(record_errors="all")


@pytest.mark.parametrize("means", ["delete", "pop", "stranger", "drop the queue"])
def test_no_note_outlives_its_message(
    make_rsmq: MakeRSMQ, target: Target, name: str, means: str
) -> None:
    rsmq = make_rsmq()
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    id = fail(rsmq, ValueError("no"))
    assert target.control.hlen(f"{name}:q:Q.errors") == 1
    if means == "delete":
        assert rsmq.delete_message("q", id)
    elif means == "pop":
        assert rsmq.pop_message("q").id == id
    elif means == "stranger":  # another client knows no notes
        target.control.zrem(f"{name}:q", id)
        target.control.hdel(f"{name}:q:Q", id, f"{id}:rc", f"{id}:fr")
        assert rsmq.receive_message("q") is None
    else:
        rsmq.delete_queue("q")
    assert not target.control.exists(f"{name}:q:Q.errors")
