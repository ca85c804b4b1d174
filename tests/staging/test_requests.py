"""Every request of staging, word by word, and what becomes of each reply.

The requests and replies are in `requests.txt`, as `tests.traces` explains.
"""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from ackq.core.effects import Operation, Request
from ackq.errors import PublishContention
from ackq.staging import operations
from ackq.staging.keys import Staged, StagingKeys, has_settings
from ackq.staging.operations import CHUNK_ROWS, FIRST_ROWS, MAX_LISTS, StagingSpec
from ackq.staging.recovery import UnfinishedCommits
from tests.steps import play
from tests.traces import Traces, compare

FILE = Path(__file__).with_name("requests.txt")
SPEC = StagingSpec("queue 'q'", StagingKeys.of_queue("q"), "w")
LISTS = SPEC.keys.list("w", 7, Staged("t")), SPEC.keys.delayed("w", 7, Staged("t"))
LEFT = b"t:staged:w:1:a:4:"


def _stays(name: bytes) -> Operation[bool]:
    """A mover that asks once whether rows are left."""
    left: bool = yield Request((b"MOVE", name))
    return left


def names() -> Traces:
    wrong: Any
    for wrong in (
        "",
        "a*",
        "{a",
        "a\n",
        "ü" * 101,
        "a" * 201,
        None,
        "a",
        "a:b",
        "ü" * 100,
        "a" * 200,
    ):
        yield f"writer {wrong!r}", partial(StagingSpec, "q", SPEC.keys, wrong)
    for wrong in ("", "a:b", "a?", "delayed", "a" * 201, "elayed"):
        yield f"task {wrong!r}", operations.stage(SPEC, 7, Staged(wrong), [b"x"], [])
    for wrong in (-1, 2**53, True, 0, 2**53 - 1):
        yield f"stage as batch {wrong}", operations.stage(SPEC, wrong, Staged("t"), [b"x"], [])
        yield f"commit batch {wrong}", operations.commit(SPEC, wrong, [], _stays)


def stages() -> Traces:
    staged = Staged("t")
    rows = [b"%d" % number for number in range(FIRST_ROWS + CHUNK_ROWS + 1)]
    later = [(5, b"a")] * FIRST_ROWS + [(6, b"b")]
    yield "stage", operations.stage(SPEC, 7, staged, rows, later)
    yield f"  then {staged}"
    more = [b"x"] * CHUNK_ROWS
    yield "stage more", operations.stage(SPEC, 7, staged, more, [(7, b"c")])
    for staged, count in ((Staged("t"), 2), (Staged("t"), 0), (Staged("t", 5), 0)):
        title = f"a list of {staged.rows} rows that becomes one of {count}"
        yield title, operations.stage(SPEC, 7, staged, [b"x"], [])
    staged = Staged("t", 5, 2)
    yield "rename", operations.rename(SPEC, 7, staged, "u")
    yield "rename again", operations.rename(SPEC, 7, Staged("t", 5), "u")
    yield "rename without permission", operations.rename(SPEC, 7, Staged("t", 5), "u")
    yield "rename to no name", operations.rename(SPEC, 7, staged, "")
    yield "rename what is empty", operations.rename(SPEC, 7, Staged("t"), "u")
    yield "discard", operations.discard(SPEC, 7, Staged("t"))
    yield "abort", operations.abort(SPEC, 7)


def commits() -> Traces:
    tasks = [Staged("a", 2, 1), Staged("b"), Staged("c", 3)]
    yield "commit, after one that left rows", operations.commit(SPEC, 7, tasks, _stays)
    yield "commit again", operations.commit(SPEC, 7, [Staged("a", 2)], _stays)
    two = [Staged("a", 2), Staged("b", 2)]
    yield "commit of a list that lost rows", operations.commit(SPEC, 7, two, _stays)
    many = [Staged(str(number), 1) for number in range(MAX_LISTS + 1)]
    yield "merge into a list that is gone", operations.commit(SPEC, 7, many, _stays)
    yield "finish", operations.finish(SPEC, _stays)
    for marker in ("of a batch", "of none", "of a key of another type"):
        yield f"marker {marker}", operations.committed(SPEC)
    yield "forget", operations.forget(SPEC)
    yield "now", operations.now()


def consumers() -> Traces:
    """A consumer looks for unfinished commits once a second."""
    unfinished = UnfinishedCommits("t")
    yield "move in", unfinished.move_in(_stays)
    yield "move in too soon", unfinished.move_in(_stays)
    yield "move in a second later", unfinished.move_in(_stays)
    unfinished = UnfinishedCommits("t")
    yield "move in for a second", unfinished.move_in(_stays)
    yield "move in the rest", unfinished.move_in(_stays)


PARTS = (names, stages, commits, consumers)


def test_the_requests_of_staging() -> None:
    compare(FILE, PARTS)


def test_the_keys_of_staged_rows() -> None:
    assert LISTS[0].endswith(b"w:7:t")
    assert LISTS[1].startswith(LISTS[0])
    assert SPEC.keys.index("w", 7).endswith(b"w:7")
    assert SPEC.keys.types() == {b"qCOMMITS": "hash", b"qHELD": "zset", b"qHELDROWS": "hash"}
    of_topic = StagingKeys.of_topic("t")
    assert of_topic.list("w", 7, Staged("x")) == b"t:staged:w:7:x"
    assert of_topic.index("w", 7) == b"t:staging:w:7"
    assert (of_topic.commits, of_topic.held, of_topic.heldrows) == (
        b"t:commits",
        b"t:held",
        b"t:heldrows",
    )
    settled = StagingKeys.of_topic("t", "keep=1,2").list("w", 7, Staged("x"))
    assert settled == b"t:staged:w:7:x:keep=1,2:"
    assert has_settings(settled)
    assert not has_settings(of_topic.list("w", 7, Staged("x")))


def test_the_lists_of_many_tasks_are_merged_before_the_commit() -> None:
    tasks = [Staged(str(number), 1, 1) for number in range(MAX_LISTS // 2 + 1)]
    steps = operations.commit(SPEC, 7, tasks, _stays)
    assert next(steps).args[0] == b"ZRANGEBYSCORE"  # type: ignore[union-attr]
    assert steps.send([]).args == (b"HGET", SPEC.keys.commits, "w")  # type: ignore[union-attr]
    merges: list[Any] = []
    request: Any = steps.send(b"6")
    while request.script.name == "staging/merge":
        merges.append(request)
        # Two calls for each list: the first leaves rows.
        request = steps.send(1 if len(merges) % 2 else 0)
    assert all(merge.resend and merge.args[3] == 2000 for merge in merges)
    # There are 501 lists of each kind, so groups of two.
    assert [merge.args[1:3] for merge in merges[:2]] == [
        (SPEC.keys.list("w", 7, tasks[1]), SPEC.keys.list("w", 7, tasks[0]))
    ] * 2
    assert len(merges) == 2 * 2 * 250
    assert request.args[0] == 4 + 2 * 251
    assert list(request.args[-502:]) == ([2] * 250 + [1]) * 2


def test_many_lists_of_a_batch_that_is_committed_are_not_merged() -> None:
    tasks = [Staged(str(number), 1) for number in range(MAX_LISTS + 1)]
    asked, rows = play(operations.commit(SPEC, 7, tasks, _stays), [], b"7", [b"known", 7], [])
    assert rows == 0
    assert asked[2].args == (4, *asked[2].args[1:5], "w", 7)
    # As many as one commit takes are not merged.
    asked, _ = play(
        operations.commit(SPEC, 7, tasks[1:], _stays), [], [b"known", 7], *[False] * MAX_LISTS, []
    )
    assert [each.args[0] for each in asked].count(b"MOVE") == MAX_LISTS


@pytest.mark.parametrize("error", [NoPermissionError(), ResponseError("WRONGTYPE"), OSError()])
def test_a_consumer_that_cannot_read_the_key_has_nothing_to_move(error: Exception) -> None:
    play(UnfinishedCommits("t").move_in(_stays), 10.0, error)


def test_rows_that_cannot_be_moved_wait_and_keep_their_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "ackq.staging")
    play(UnfinishedCommits("t").move_in(_stays), 10.0, [LEFT, LEFT], PublishContention("x"))
    assert not caplog.records
    asked, _ = play(UnfinishedCommits("t").move_in(_stays), 10.0, [LEFT, LEFT], OSError("x"))
    assert len(asked) == 3
    assert "committed rows of t:held could not be moved in yet: x" in caplog.text
