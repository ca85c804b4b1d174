"""What a holder knows about its own settles: the decisions alone, with no server."""

from dataclasses import dataclass, field
from typing import NoReturn

import pytest
from redis.exceptions import ConnectionError, ResponseError

from ackq.core.effects import Operation, Request
from ackq.core.fencing import (
    Leased,
    Verb,
    admit,
    lease_lost,
    note_reply,
    send,
    split_remaining,
)

ACK = Verb("ack", "ack")
NACK = Verb("nack", "nack", gives_back=True)
RELEASE = Verb("release", "nack", gives_back=True)
REJECT = Verb("reject", "reject", kills=True)
EXTEND = Verb("extend", "extend", settles=False)


class Held(Leased):
    kind = "queue"

    def __init__(
        self, label: str = "m", *, settled_by: Verb | None = None, settles_sent: int = 1
    ) -> None:
        self._label = label
        self.queue = "q"
        self.lease_lost = False
        self.settled_by = settled_by
        self.settles_sent = settles_sent

    @property
    def label(self) -> str:
        return self._label


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
    fresh, acked = Held(), Held(settled_by=ACK)
    nacked, released = Held(settled_by=NACK), Held(settled_by=RELEASE)
    messages = [fresh, acked, nacked, released]
    assert admit(NACK, messages) == ([fresh], [released])
    assert [message.lease_lost for message in messages] == [False, False, False, True]
    assert admit(ACK, messages) == ([fresh], [nacked, released])


def test_a_settle_counts_as_sent_until_the_server_certainly_applied_nothing() -> None:
    spec = AnySpec()
    for error, reply_lost, left, raised in [
        (None, False, 1, None),
        (ConnectionError(), False, 0, ConnectionError),
        (ConnectionError(), True, 1, ConnectionError),
        (ResponseError("WRONGTYPE"), False, 0, LookupError),
        (ZeroDivisionError(), False, 1, ZeroDivisionError),
    ]:
        message, request = Held(settles_sent=0), _request()
        steps = send(spec, ACK, request, [message])
        assert next(steps) is request
        assert message.settles_sent == 1
        request.reply_lost = reply_lost
        if error is None:
            with pytest.raises(StopIteration) as ended:
                steps.send("reply")
            assert ended.value.value == "reply"
        else:
            assert raised is not None
            with pytest.raises(raised):
                steps.throw(error)
        assert message.settles_sent == left, error
    assert [str(each) for each in spec.seen] == ["WRONGTYPE"]


def test_extend_leaves_no_record() -> None:
    message = Held(settles_sent=0)
    steps = send(AnySpec(), EXTEND, _request(), [message])
    next(steps)
    assert message.settles_sent == 0
    assert note_reply(EXTEND, [message], (), _request()) == []
    assert message.settled_by is None
    assert note_reply(EXTEND, [message], (1,), _request()) == [message]
    assert message.lease_lost
    assert (message.settled_by, message.settles_sent) == (None, 0)


def test_only_refused_messages_are_lost_and_the_others_settled() -> None:
    messages = [Held(), Held(), Held()]
    assert note_reply(ACK, messages, (2,), _request()) == [messages[1]]
    assert [message.settled_by for message in messages] == [ACK, None, ACK]
    assert [message.lease_lost for message in messages] == [False, True, False]
    # The refused one was certainly not settled, so a later refusal is no settle of its own.
    assert [message.settles_sent for message in messages] == [1, 0, 1]


@pytest.mark.parametrize(
    ("earlier", "reply_lost", "lost"), [(0, False, True), (1, False, False), (0, True, False)]
)
def test_a_message_that_is_gone_is_lost_unless_an_earlier_settle_may_have_been_applied(
    earlier: int, reply_lost: bool, lost: bool
) -> None:
    message = Held(settles_sent=earlier + 1)
    found = note_reply(ACK, [message], (-1,), _request(reply_lost))
    assert (found, message.lease_lost) == (([message], True) if lost else ([], False))
    assert message.settles_sent == earlier + (0 if lost else 1)


@pytest.mark.parametrize("verb", [ACK, NACK, RELEASE, REJECT, EXTEND])
@pytest.mark.parametrize(("earlier", "reply_lost"), [(0, False), (1, False), (0, True), (1, True)])
def test_a_message_that_another_consumer_holds_is_lost_however_often_the_settle_was_sent(
    verb: Verb, earlier: int, reply_lost: bool
) -> None:
    """A settle of this holder was applied only if the lease key was used again since."""
    message, other = Held(settles_sent=earlier + 1), Held()
    found = note_reply(verb, [other, message], (2,), _request(reply_lost))
    assert (found, message.lease_lost, message.settled_by) == ([message], True, None)
    assert message.maybe_settled == (earlier > 0 or reply_lost or not verb.settles)
    assert not other.lease_lost
    assert ("was lost: if that" in str(lease_lost(verb, found, (), 1))) == message.maybe_settled


def test_a_message_named_twice_in_one_call_is_no_earlier_settle() -> None:
    message = Held(settles_sent=2)
    assert note_reply(ACK, [message, message], (-1, -2), _request()) == [message, message]
    # For extend nothing is sent that settles: any settle may be the one that was applied.
    message = Held(settles_sent=1)
    assert note_reply(EXTEND, [message], (-1,), _request()) == []


def test_a_repeated_extend_of_a_message_that_is_gone_is_refused() -> None:
    """The first attempt cannot have settled it, so somebody else did."""
    message = Held(settles_sent=0)
    assert note_reply(EXTEND, [message], (-1,), _request(reply_lost=True)) == [message]
    assert message.lease_lost


def test_messages_that_a_call_leaves_are_as_before() -> None:
    messages = [Held(settles_sent=3) for _ in range(3)]
    assert note_reply(ACK, messages, (), _request(), left=1) == []
    assert [message.settled_by for message in messages] == [ACK, ACK, None]
    assert [message.settles_sent for message in messages] == [3, 3, 2]
    note_reply(ACK, messages[2:], (), _request(reply_lost=True), left=1)
    assert messages[2].settles_sent == 2


def test_a_reply_says_which_messages_are_left() -> None:
    order = [Held(), Held(), Held(), Held()]
    assert split_remaining([2, 0, 3], order) == ([2], order[2:])
    assert split_remaining([2, 3], order) == ([2, 3], ())
    assert split_remaining([0, 3], order) == ([0, 3], ())


def test_the_error_names_five_refused_messages_and_counts_the_rest() -> None:
    refused = [Held(str(number)) for number in range(7)]
    given_back = [Held("back", settled_by=NACK)]
    error = lease_lost(ACK, refused, given_back, 4)
    text = str(error)
    assert text.startswith("queue 'q': ack refused for '0', '1', '2', '3', '4' and 2 more: the")
    assert "ack refused for 'back': this consumer has returned the message with nack" in text
    assert text.endswith(". 4 others were settled")
    assert str(lease_lost(ACK, refused, (), 1)).endswith(". 1 other was settled")
    assert "settled" not in str(lease_lost(ACK, (), given_back, 0))
    assert error.settled == 4
    assert list(error.messages) == [*refused, *given_back]
    text = str(lease_lost(ACK, refused[:5], [], 0))
    assert "'0', '1', '2', '3', '4': the lease ended, so" in text
