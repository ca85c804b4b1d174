"""pipeline/reject: each rejected row of a batch is appended once, and only while its batch runs."""

from typing import Any

from tests.queue.scripts.space import Space

DAY = 86_400_000


def reject(space: Space, batch: str, *rows: str) -> list[Any]:
    """Call the script with some rows, whose bodies are their names."""
    groups = [each for row in rows for each in (row, "", row, "no use")]
    reply: list[Any] = space.call("pipeline/reject", batch, DAY, *groups)
    return reply


def letters(space: Space) -> list[bytes]:
    return [fields[b"body"] for _, fields in space.client.xrange(space.key("DEAD"))]


def test_a_row_is_appended_once_while_its_batch_runs(space: Space) -> None:
    assert reject(space, "7") == [b"ok", 0]
    assert reject(space, "7", "a", "b") == [b"ok", 2]
    assert reject(space, "7") == [b"ok", 0]
    assert reject(space, "7", "b", "c") == [b"ok", 1]
    assert letters(space) == [b"a", b"b", b"c"]


def test_a_new_batch_forgets_the_rows_of_the_former(space: Space) -> None:
    for batch in ("7", "8"):
        reject(space, batch)
        reject(space, batch, "a")
    assert letters(space) == [b"a", b"a"]


def test_rows_of_a_batch_that_was_not_begun_or_is_over_change_nothing(space: Space) -> None:
    assert reject(space, "7", "a") == [b"superseded", b""]
    reject(space, "8")
    before = space.dump()
    assert reject(space, "7", "a") == [b"superseded", b"8"]
    assert space.dump() == before
    assert not letters(space)
