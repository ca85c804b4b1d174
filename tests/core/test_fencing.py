"""What a holder knows about its own settles: the decisions alone, with no server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import pytest
from redis.exceptions import ConnectionError, ResponseError

from ackq.core.effects import Operation, Request
from ackq.core.fencing import (
    admit,
    note_reply,
    raise_if_refused,
    send,
    split_remaining,
    was_settled,
)
from ackq.errors import LeaseLost


@dataclass(eq=False)
class Held:
    name: str = "m"
    lease_lost: bool = False
    _settled: str = ""
    _settles_sent: int = 1


@dataclass
class AnySpec:
    seen: list[ResponseError] = field(default_factory=list)

    def raise_for_reply(self, error: ResponseError, *context: object) -> Operation[NoReturn]:
        self.seen.append(error)
        yield from ()
        raise LookupError


def _request(reply_lost: bool = False) -> Request:
    return Request((b"EVALSHA",), reply_lost=reply_lost)


def test_a_message_is_sent_unless_this_holder_settled_it() -> None:
    fresh, acked = Held(), Held(_settled="ack")
    nacked, released = Held(_settled="nack"), Held(_settled="release")
    messages = [fresh, acked, nacked, released]
    assert admit("nack", messages) == ([fresh], [released])
    assert [each.lease_lost for each in messages] == [False, False, False, True]
    assert admit("ack", messages) == ([fresh], [nacked, released])
    assert was_settled(acked, "ack")
    assert not was_settled(acked, "nack")


def test_a_settle_counts_as_sent_until_the_server_certainly_applied_nothing() -> None:
    spec = AnySpec()
    for error, reply_lost, left, raised in [
        (None, False, 1, None),
        (ConnectionError(), False, 0, ConnectionError),
        (ConnectionError(), True, 1, ConnectionError),
        (ResponseError("WRONGTYPE"), False, 0, LookupError),
        (ZeroDivisionError(), False, 1, ZeroDivisionError),
    ]:
        message, request = Held(_settles_sent=0), _request()
        steps = send(spec, "ack", request, [message])
        assert next(steps) is request
        assert message._settles_sent == 1
        request.reply_lost = reply_lost
        if error is None:
            with pytest.raises(StopIteration) as ended:
                steps.send("reply")
            assert ended.value.value == "reply"
        else:
            assert raised is not None
            with pytest.raises(raised):
                steps.throw(error)
        assert message._settles_sent == left, error
    assert [str(each) for each in spec.seen] == ["WRONGTYPE"]


def test_extend_leaves_no_record() -> None:
    message = Held(_settles_sent=0)
    steps = send(AnySpec(), "extend", _request(), [message])
    next(steps)
    assert message._settles_sent == 0
    assert note_reply("extend", [message], (), _request()) == []
    assert not message._settled
    assert note_reply("extend", [message], (1,), _request()) == [message]
    assert message.lease_lost
    assert (message._settled, message._settles_sent) == ("", 0)


def test_only_refused_messages_are_lost_and_the_others_settled() -> None:
    messages = [Held(), Held(), Held()]
    assert note_reply("ack", messages, (2,), _request()) == [messages[1]]
    assert [each._settled for each in messages] == ["ack", "", "ack"]
    assert [each.lease_lost for each in messages] == [False, True, False]
    # The refused one was certainly not settled, so a later refusal is no settle of its own.
    assert [each._settles_sent for each in messages] == [1, 0, 1]


@pytest.mark.parametrize(
    ("earlier", "reply_lost", "lost"), [(0, False, True), (1, False, False), (0, True, False)]
)
def test_a_message_that_is_gone_is_lost_unless_an_earlier_settle_may_have_been_applied(
    earlier: int, reply_lost: bool, lost: bool
) -> None:
    message = Held(_settles_sent=earlier + 1)
    found = note_reply("ack", [message], (-1,), _request(reply_lost))
    assert (found, message.lease_lost) == (([message], True) if lost else ([], False))
    assert message._settles_sent == earlier + (0 if lost else 1)


def test_a_message_named_twice_in_one_call_is_no_earlier_settle() -> None:
    message = Held(_settles_sent=2)
    assert note_reply("ack", [message, message], (-1, -2), _request()) == [message, message]
    # For extend nothing is sent that settles: any settle may be the one that was applied.
    message = Held(_settles_sent=1)
    assert note_reply("extend", [message], (-1,), _request()) == []


def test_a_repeated_extend_of_a_message_that_is_gone_is_refused() -> None:
    """The first attempt cannot have settled it, so somebody else did."""
    message = Held(_settles_sent=0)
    assert note_reply("extend", [message], (-1,), _request(reply_lost=True)) == [message]
    assert message.lease_lost


def test_messages_that_a_call_leaves_are_as_before() -> None:
    messages = [Held(_settles_sent=3) for _ in range(3)]
    assert note_reply("ack", messages, (), _request(), left=1) == []
    assert [each._settled for each in messages] == ["ack", "ack", ""]
    assert [each._settles_sent for each in messages] == [3, 3, 2]
    note_reply("ack", messages[2:], (), _request(reply_lost=True), left=1)
    assert messages[2]._settles_sent == 2


def test_a_reply_says_which_messages_are_left() -> None:
    order = [Held(), Held(), Held(), Held()]
    assert split_remaining([2, 0, 3], order) == ([2], order[2:])
    assert split_remaining([2, 3], order) == ([2, 3], ())
    assert split_remaining([0, 3], order) == ([0, 3], ())


def test_the_error_names_five_refused_messages_and_counts_the_rest() -> None:
    raise_if_refused("queue 'q'", "ack", [], [], 3, lambda each: each.name)
    refused = [Held(str(number)) for number in range(7)]
    given_back = [Held("back", _settled="nack")]
    with pytest.raises(LeaseLost) as raised:
        raise_if_refused("queue 'q'", "ack", refused, given_back, 4, lambda each: each.name)
    text = str(raised.value)
    assert text.startswith("queue 'q': ack refused for '0', '1', '2', '3', '4' and 2 more: the")
    assert "ack refused for 'back': this consumer gave the message back with nack" in text
    assert text.endswith("the other 4 were settled")
    assert raised.value.settled == 4
    assert list(raised.value.messages) == [*refused, *given_back]
    with pytest.raises(LeaseLost, match=r"'0', '1', '2', '3', '4': the lease ended, and"):
        raise_if_refused("q", "ack", refused[:5], [], 0, lambda each: each.name)
