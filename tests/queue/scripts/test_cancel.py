"""cancel of what is leased: the lease ends, and its holder can find out why."""

import pytest

from tests.queue.scripts.space import FUTURE, NOW, PAST, SECOND, Space, body

LATER = NOW + 30 * SECOND


def test_a_running_message_becomes_a_dead_letter_with_its_count_and_its_errors(
    space: Space,
) -> None:
    space.lease("a", deadline=LATER, count=3)
    space.note("a", body("a"), b"1:7:{}", b"2:8:{}")
    space.lease("b", deadline=LATER, extended=f"{NOW + 5}:{LATER}")
    space.lease("other", deadline=LATER)
    assert space.frozen().call("cancel", 1, "", "a", "", "b", "", "gone") == [2, 3]
    assert space.dead == [(b"a", body("a"), "canceled", 3), (b"b", body("b"), "canceled", 1)]
    assert space.dead_lettered == [[b"1:7:{}", b"2:8:{}"], []]
    left = space.dump()
    left.pop("DEAD")
    assert left == {
        "BACKUP": {b"other": LATER},
        "CONTEXT": {b"other": body("other")},
        "EXTENDED": {
            b"a": b"%d:canceled:%d" % (LATER, LATER),
            b"b": b"%d:canceled:%d" % (NOW + 5, LATER),
        },
    }


def test_what_runs_is_left_alone_unless_that_is_asked_for_and_what_has_ended_is_not(
    space: Space,
) -> None:
    space.lease("running", deadline=NOW + 1)
    space.lease("ended", deadline=NOW, extended=f"7:{NOW}")
    frozen = space.frozen()
    assert frozen.call("cancel", 0, "", "running", "", "ended") == [1, 2]
    assert [letter[0] for letter in space.dead] == [b"ended"]
    assert (space.leases, space.extended) == ({b"running": NOW + 1}, {})
    assert frozen.call("cancel", 1, NOW + 1, "running") == [0, 1], "a due time names no lease"


def test_the_next_extend_reports_that_its_delivery_was_canceled(space: Space) -> None:
    space.push(body("a"), body("b"))
    frozen = space.frozen()
    popped = frozen.pop(2, jitter=5)
    frozen.call("cancel", 1, "", "a")
    for _ in range(2):  # the first reply may be lost
        assert frozen.extend((popped.deadline, "b", "a")) == [LATER, 1, -2, [2]]
    assert space.ack((popped.deadline, "a")) == [0, -1]


def test_a_note_of_a_canceled_delivery_applies_to_no_other_delivery(space: Space) -> None:
    frozen = space.frozen()
    space.push(body("a"))
    first = frozen.pop(jitter=5)
    frozen.call("cancel", 1, "", "a")
    space.push(body("a"))
    second = frozen.pop(jitter=9)
    assert frozen.extend((first.deadline, "a"))[1:] == [0, 1, [1]], "the canceled one"
    assert frozen.extend((PAST, "a"))[1:] == [0, 1], "one that had ended before"
    assert frozen.extend((second.deadline, "a"))[1:] == [1], "its successor"
    assert frozen.extend((first.deadline, "a"))[1:] == [0, 1], "the successor's note replaced it"
    assert space.ack((second.deadline, "a")) == [1]
    assert space.extended == {}


def test_an_extended_delivery_is_noted_with_its_receipt(space: Space) -> None:
    space.push(body("a"))
    popped = space.frozen().pop()
    space.frozen().extend((popped.deadline, "a"), timeout=99 * SECOND)
    space.frozen().call("cancel", 1, "", "a")
    assert space.frozen().extend((popped.deadline, "a"))[1:] == [0, -1, [1]]


def test_notes_of_leases_that_have_ended_are_swept_and_no_others(space: Space) -> None:
    space.lease("a", deadline=LATER)
    space.lease("leased", deadline=LATER, extended=f"7:{LATER}")
    notes = {"ended": f"7:canceled:{NOW}", "runs": f"7:canceled:{NOW + 1}"}
    space.client.hset(space.key("EXTENDED"), mapping=notes)
    space.frozen().call("cancel", 1, "", "a")
    assert space.extended.keys() == {b"a", b"leased", b"runs"}


def test_a_cancel_looks_at_a_few_notes(space: Space) -> None:
    space.lease("a")
    notes = {f"n{number}": f"7:canceled:{PAST}" for number in range(400)}
    space.client.hset(space.key("EXTENDED"), mapping=notes)
    space.call("cancel", 1, "", "a")
    assert 280 <= len(space.extended) <= 301


@pytest.mark.parametrize("repair", [0, 1])
def test_an_audit_finds_no_fault_with_a_note_and_deletes_it_at_its_end(
    space: Space, repair: int
) -> None:
    notes = {
        "runs": f"7:canceled:{FUTURE}",
        "ended": f"7:canceled:{PAST}",
        "stale": f"7:{FUTURE}",
    }
    space.client.hset(space.key("EXTENDED"), mapping=notes)
    reply = space.call("audit_scan", "extended", 0, repair)
    assert reply[2:] == [b"stale extension", b"stale"]
    left = {b"runs"} if repair else {b"runs", b"ended", b"stale"}
    assert space.extended.keys() == left
