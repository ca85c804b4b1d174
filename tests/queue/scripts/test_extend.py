"""extend: move the end of a lease; the receipt stays."""

from tests.queue.scripts.space import NOW, PAST, SECOND, Space, body


def test_an_extension_moves_the_deadline_and_notes_the_receipt(space: Space) -> None:
    space.lease("a", deadline=PAST, count=3)
    reply = space.frozen().extend((PAST, "a"), timeout=60 * SECOND, jitter=99)
    deadline = NOW + 60 * SECOND + 99
    assert reply == [deadline, 1]
    assert space.dump() == {
        "BACKUP": {b"a": deadline},
        "CONTEXT": {b"a": body("a")},
        "RECEIVES": {b"a": b"3"},
        "EXTENDED": {b"a": b"%d:%d" % (PAST, deadline)},
    }


def test_a_lease_can_be_extended_again_and_again_with_its_first_receipt(space: Space) -> None:
    space.push(body("a"))
    popped = space.pop()
    for timeout in (50, 40, 60):  # an extension may also shorten
        deadline, *rest = space.extend((popped.deadline, "a"), timeout=timeout * SECOND)
        assert rest == [1]
        assert space.leases == {b"a": deadline}
        assert space.extended == {b"a": b"%d:%d" % (popped.deadline, deadline)}
    assert space.ack((popped.deadline, "a")) == [1]


def test_an_extension_with_a_lost_reply_keeps_the_old_receipt_valid(space: Space) -> None:
    space.push(body("a"), body("b"), body("c"))
    popped = space.pop(3)
    space.extend((popped.deadline, *popped.keys))  # as if the reply was lost
    assert space.ack((popped.deadline, "a")) == [1]
    assert space.nack((popped.deadline, 0, "b")) == [1]
    assert space.reject((popped.deadline, "c")) == [1]
    assert space.extended == {}


def test_an_extended_lease_does_not_expire_at_its_old_deadline(space: Space) -> None:
    space.lease("a", deadline=NOW)
    space.frozen().extend((NOW, "a"), timeout=10)
    assert space.frozen(NOW + 9).pop().status == "empty"
    assert space.frozen(NOW + 10).pop().keys == [b"a"]


def test_the_extension_of_the_former_holder_gives_it_nothing(space: Space) -> None:
    space.push(body("a"))
    former = space.frozen(NOW).pop(timeout=10)
    space.frozen(NOW).extend((former.deadline, "a"), timeout=20)
    space.frozen(NOW + 20).pop(timeout=30)
    before = space.dump()
    assert space.extend((former.deadline, "a"))[1:] == [0, 1]
    assert space.ack((former.deadline, "a")) == [0, 1]
    assert space.dump() == before


def test_the_receipt_of_a_shortened_lease_is_not_given_to_another(space: Space) -> None:
    space.push(body("a"))
    former = space.frozen(NOW).pop(timeout=60)
    space.frozen(NOW).extend((former.deadline, "a"), timeout=10)
    assert space.frozen(NOW + 20).pop(timeout=39, jitter=1).status == "again"
    taken = space.frozen(NOW + 20).pop(timeout=39, jitter=2)
    assert taken.deadline == former.deadline + 1
    assert space.ack((former.deadline, "a")) == [0, 1]
    assert space.ack((taken.deadline, "a")) == [1]
