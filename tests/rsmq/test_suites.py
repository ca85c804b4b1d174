"""What the suites of the original and of PyRSMQ check, with errors compared by their class.

The cases are ours. Each runs through ackq and through the original, so both have to agree. What
those suites check of one call's effect on another client is in `test_peers`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from ackq.rsmq import RSMQ
from tests.rsmq.conftest import MakePeer
from tests.rsmq.peers import Peer, PeerError

# One Node.js for all of them, as for test_peers.
pytestmark = pytest.mark.xdist_group("peers")

ID = "abcdefghij0123456789abcdefghij01"
#: As long as the longest that a queue accepts by default, and more.
LONGER = "A longer message. " * 4000


@pytest.fixture(params=["ackq", "ackq-async", "rsmq"])
def peer(request: pytest.FixtureRequest, make_peer: MakePeer) -> Peer:
    """One implementation, with a queue "q"."""
    made = make_peer(request.param)
    made.create("q")
    return made


def refused(call: Callable[[Any], Any], peer: Peer) -> str:
    """Return the class of the error, as the original names it."""
    try:
        return f"not refused: {call(peer)}"
    except PeerError as error:
        return str(error)


# --- what is refused --------------------------------------------------------------

Case = tuple[str, Callable[[Any], Any]]


def invalid_setting(setting: str, value: Any) -> Case:
    return "invalidValue", lambda peer: peer.create("p", **{setting: value})


REFUSED: dict[str, Case] = {
    "a name with a space": ("invalidFormat", lambda peer: peer.create("should throw")),
    "a name of 168 characters": ("invalidFormat", lambda peer: peer.create("name0123" * 21)),
    "a name with a colon": ("invalidFormat", lambda peer: peer.create("something:else")),
    "an empty name": ("missingParameter", lambda peer: peer.create("")),
    "no name": ("missingParameter", lambda peer: peer.send(None, "m")),
    "the same queue again": ("queueExists", lambda peer: peer.create("q", vt=1)),
    "a change to a maxsize of 50": ("invalidValue", lambda peer: peer.change("q", maxsize=50)),
    "a change to a vt of -5": ("invalidValue", lambda peer: peer.change("q", vt=-5)),
    "no change": ("noAttributeSupplied", lambda peer: peer.change("q")),
    "no change of no queue": ("noAttributeSupplied", lambda peer: peer.change("none")),
    "a change of no queue": ("queueNotFound", lambda peer: peer.change("none", vt=1000)),
    "the attributes of no queue": ("queueNotFound", lambda peer: peer.attributes("none")),
    "a message to no queue": ("queueNotFound", lambda peer: peer.send("none", "foo")),
    "no message": ("messageNotString", lambda peer: peer.send("q", None)),
    "a number as a message": ("messageNotString", lambda peer: peer.send("q", 123)),
    "a message that is too long": ("messageTooLong", lambda peer: peer.send("q", LONGER)),
    "a deletion without an id": ("missingParameter", lambda peer: peer.delete("q", None)),
    "a deletion of no id": ("invalidFormat", lambda peer: peer.delete("q", "sdafsdf")),
    "a visibility of no id": ("invalidFormat", lambda peer: peer.show("q", "sdafsdf", 1)),
    **{
        f"a {setting} of {value!r}": invalid_setting(setting, value)
        for setting in ("vt", "delay")
        for value in (-20, "not_a_number", 10_000_000)
    },
    **{
        f"a maxsize of {value!r}": invalid_setting("maxsize", value)
        for value in (-20, -2, 900, 66_000, "not_a_number")
    },
}


def test_what_the_original_refuses_is_refused_with_the_same_error(peer: Peer) -> None:
    errors = {case: refused(call, peer) for case, (_, call) in REFUSED.items()}
    assert errors == {case: expected for case, (expected, _) in REFUSED.items()}
    assert peer.names() == {"q"}
    found = peer.attributes("q")
    assert (found["vt"], found["delay"], found["maxsize"]) == (30, 0, 65_536)
    assert found["msgs"] == 0


# --- what is done -----------------------------------------------------------------


def test_a_change_leaves_the_other_attributes_and_returns_all(peer: Peer) -> None:
    assert peer.change("q", vt=1234)["vt"] == 1234
    for change in ({"delay": 7}, {"maxsize": -1}, {"maxsize": 2048}):
        changed = peer.change("q", **change)
        assert changed == peer.attributes("q")
    assert (changed["vt"], changed["delay"], changed["maxsize"]) == (1234, 7, 2048)
    changed = peer.change("q", maxsize=65_536, vt=30, delay=0)
    assert (changed["vt"], changed["delay"], changed["maxsize"]) == (30, 0, 65_536)


def test_messages_are_received_in_the_order_in_which_they_become_visible(peer: Peer) -> None:
    first, second = peer.send("q", "Hello"), peer.send("q", "World")
    assert [found(peer.receive("q"))["id"] for _ in range(2)] == [first, second]
    assert peer.receive("q") is None
    assert peer.show("q", second, 0)
    assert found(peer.receive("q"))["id"] == second
    assert peer.show("q", first, 0)
    assert found(peer.receive("q"))["id"] == first
    counts = peer.attributes("q")
    assert (counts["msgs"], counts["hiddenmsgs"], counts["totalrecv"]) == (2, 2, 4)


def test_a_queue_without_a_limit_takes_a_longer_message(peer: Peer) -> None:
    assert peer.change("q", maxsize=-1)["maxsize"] == -1
    id = peer.send("q", LONGER)
    assert found(peer.receive("q")) | {"fr": 0} == {"id": id, "message": LONGER, "rc": 1, "fr": 0}


# --- what PyRSMQ stores -----------------------------------------------------------


def test_the_limit_that_pyrsmq_stores_can_be_read_and_written_back(
    make_peer: MakePeer, url: str, token: str
) -> None:
    make_peer("PyRSMQ").create("q", vt=15, delay=10)
    with RSMQ.from_url(url, token) as ours:
        found = ours.get_queue_attributes("q")
        assert (found.vt, found.delay, found.maxsize) == (15, 10, 65_565)
        again = ours.set_queue_attributes(
            "q",
            vt=found.vt,  # type: ignore[arg-type]
            delay=found.delay,  # type: ignore[arg-type]
            maxsize=found.maxsize,
        )
        assert again.maxsize == 65_565
        ours.create_queue("copy", maxsize=found.maxsize)  # type: ignore[arg-type]
        assert ours.get_queue_attributes("copy").maxsize == 65_565
        ours.send_message("copy", "x" * 65_565)
    assert make_peer("rsmq").attributes("copy")["maxsize"] == 65_565


def test_objects_that_pyrsmq_sends_arrive_as_json(
    make_peer: MakePeer, url: str, token: str
) -> None:
    theirs: Any = make_peer("PyRSMQ")
    theirs.create("q")
    theirs.client.sendMessage(qname="q", message={"a": "b"}, encode=True).execute()
    with RSMQ.from_url(url, token) as ours:
        assert found(ours.receive_message("q")).message == '{"a": "b"}'


def found(message: Any) -> Any:
    assert message is not None
    return message
