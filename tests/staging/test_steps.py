"""What staging asks for between two replies, with no server."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from ackq.core.effects import Clock, Operation, Request
from ackq.errors import ConfigurationError, KeyTypeError, PublishContention, StagingLost
from ackq.staging import operations
from ackq.staging.keys import Staged, StagingKeys, has_settings
from ackq.staging.operations import CHUNK_ROWS, FIRST_ROWS, MAX_LISTS, StagingSpec
from ackq.staging.recovery import CHECK_INTERVAL, UnfinishedCommits
from tests.steps import play

SPEC = StagingSpec("queue 'q'", StagingKeys.of_queue("q", b"qHELD"), "w")
LISTS = SPEC.keys.list("w", 7, Staged("t")), SPEC.keys.delayed("w", 7, Staged("t"))


def _stays(name: bytes) -> Operation[bool]:
    """A mover that asks once whether rows are left."""
    left: bool = yield Request((b"MOVE", name))
    return left


def _moves(asked: list[Any]) -> list[bytes]:
    return [each.args[1] for each in asked if each.args[0] == b"MOVE"]


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


def test_names_that_cannot_be_in_a_key_are_refused() -> None:
    for wrong in ("", "a*", "{a", "a\n", "ü" * 101, "a" * 201, None):
        with pytest.raises(ConfigurationError, match="writer's name"):
            StagingSpec("q", SPEC.keys, wrong)  # type: ignore[arg-type]
    for fine in ("a", "a:b", "ü" * 100, "a" * 200):
        StagingSpec("q", SPEC.keys, fine)
    suffix = LISTS[1].removeprefix(LISTS[0]).decode()[1:]
    for wrong in ("", "a:b", "a?", suffix):
        with pytest.raises(ConfigurationError, match="task's name"):
            next(operations.stage(SPEC, 7, Staged(wrong), [b"x"], []))
    for batch in (-1, 2**53, True):
        with pytest.raises(ConfigurationError, match="batch"):
            next(operations.stage(SPEC, batch, Staged("t"), [b"x"], []))
        with pytest.raises(ConfigurationError, match="batch"):
            next(operations.commit(SPEC, batch, [], _stays))
    for batch in (0, 2**53 - 1):
        assert isinstance(next(operations.commit(SPEC, batch, [], _stays)), Request)


def test_the_first_rows_of_a_list_go_through_the_script_and_further_ones_past_it() -> None:
    staged = Staged("t")
    rows = [b"%d" % number for number in range(FIRST_ROWS + CHUNK_ROWS + 1)]
    later = [(5, b"a")] * FIRST_ROWS + [(6, b"b")]
    counts = FIRST_ROWS, FIRST_ROWS + CHUNK_ROWS, len(rows), FIRST_ROWS, FIRST_ROWS + 1
    asked, _ = play(operations.stage(SPEC, 7, staged, rows, later), *counts)
    assert (staged.rows, staged.delayed) == (len(rows), len(later))
    first, second, third, delayed, last = asked
    assert first.args == (2, LISTS[0], SPEC.keys.index("w", 7), 86_400_000, *rows[:FIRST_ROWS])
    assert first.script.name == "staging/stage"
    assert (second.script, second.args[:2]) == (None, (b"LPUSHX", LISTS[0]))
    assert [*second.args[2:], *third.args[2:]] == rows[FIRST_ROWS:]
    assert delayed.args[1] == LISTS[1]
    assert delayed.args[4:] == (b"5:a",) * FIRST_ROWS
    assert last.args == (b"LPUSHX", LISTS[1], b"6:b")
    assert not any(each.resend for each in asked)
    # More rows of the same task.
    many = [b"x"] * CHUNK_ROWS
    (more, later_still), _ = play(
        operations.stage(SPEC, 7, staged, many, [(7, b"c")]), len(rows) + CHUNK_ROWS, len(later) + 1
    )
    assert more.args == (b"LPUSHX", LISTS[0], *many)
    assert later_still.args == (b"LPUSHX", LISTS[1], b"7:c")


def test_a_list_that_does_not_grow_as_it_should_was_lost() -> None:
    for staged, count in ((Staged("t"), 2), (Staged("t"), 0), (Staged("t", 5), 0)):
        with pytest.raises(StagingLost, match=f"staged {staged.rows + 1} rows"):
            play(operations.stage(SPEC, 7, staged, [b"x"], []), count)


def test_a_commit_first_moves_what_an_earlier_one_left() -> None:
    tasks = [Staged("a", 2, 1), Staged("b"), Staged("c", 3)]
    steps = operations.commit(SPEC, 7, tasks, _stays)
    names = [
        SPEC.keys.list("w", 7, tasks[0]),
        SPEC.keys.list("w", 7, tasks[2]),
        SPEC.keys.delayed("w", 7, tasks[0]),
    ]
    asked, rows = play(
        steps, [b"old"], True, False, [b"ok", 6], False, True, False, False, [b"left"], 1, []
    )
    assert rows == 6
    assert _moves(asked) == [b"old", b"old", names[0], names[1], names[1], names[2]]
    commit = next(each for each in asked if each.script and each.script.name == "staging/commit")
    shared = SPEC.keys.commits, SPEC.keys.held, SPEC.keys.heldrows
    assert commit.args == (6, *shared, *names, "w", 7, 2, 3, 1)
    assert commit.resend
    # The commit leaves nothing of tasks that it does not name.
    look, drop, again = asked[-3:]
    assert look.args == again.args == (b"SRANDMEMBER", SPEC.keys.index("w", 7), 50)
    assert drop.args == (3, SPEC.keys.held, SPEC.keys.index("w", 7), b"left")
    assert (look.resend, drop.resend) == (True, True)


def test_a_batch_that_is_committed_already_adds_nothing_and_is_still_moved() -> None:
    steps = operations.commit(SPEC, 7, [Staged("a", 2)], _stays)
    asked, rows = play(steps, [], [b"known", 7], False, [])
    assert (rows, len(_moves(asked))) == (0, 1)


def test_a_commit_of_a_list_that_lost_rows_names_it() -> None:
    steps = operations.commit(SPEC, 7, [Staged("a", 2), Staged("b", 2)], _stays)
    with pytest.raises(StagingLost, match="w:7:b' does not hold"):
        play(steps, [], [b"lost", 2])


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
    assert all(each.resend and each.args[3] == 2000 for each in merges)
    # Of each kind there are 501 lists, so groups of two.
    assert [each.args[1:3] for each in merges[:2]] == [
        (SPEC.keys.list("w", 7, tasks[1]), SPEC.keys.list("w", 7, tasks[0]))
    ] * 2
    assert len(merges) == 2 * 2 * 250
    assert request.args[0] == 3 + 2 * 251
    assert list(request.args[-502:]) == ([2] * 250 + [1]) * 2


def test_a_merge_into_a_list_that_is_gone_is_an_error() -> None:
    tasks = [Staged(str(number), 1) for number in range(MAX_LISTS + 1)]
    with pytest.raises(StagingLost, match="w:7:0' is gone"):
        play(operations.commit(SPEC, 7, tasks, _stays), [], None, -1)


def test_many_lists_of_a_batch_that_is_committed_are_not_merged() -> None:
    tasks = [Staged(str(number), 1) for number in range(MAX_LISTS + 1)]
    asked, rows = play(operations.commit(SPEC, 7, tasks, _stays), [], b"7", [b"known", 7], [])
    assert rows == 0
    assert asked[2].args == (3, *asked[2].args[1:4], "w", 7)
    # As many as one commit takes are not merged.
    asked, _ = play(
        operations.commit(SPEC, 7, tasks[1:], _stays), [], [b"known", 7], *[False] * MAX_LISTS, []
    )
    assert len(_moves(asked)) == MAX_LISTS


def test_what_else_a_writer_asks_for() -> None:
    (request,), marker = play(operations.committed(SPEC), b"12")
    assert (marker, request.resend) == (12, True)
    assert play(operations.committed(SPEC), None)[1] is None
    (request,), _ = play(operations.forget(SPEC), 1)
    assert (request.args, request.resend) == ((b"HDEL", SPEC.keys.commits, "w"), True)
    (request,), now = play(operations.now(), [b"3", b"4"])
    assert (request.args, request.resend, now) == ((b"TIME",), True, 3_000_004)
    (request,), _ = play(operations.discard(SPEC, 7, Staged("t")), 2)
    assert request.args == (4, SPEC.keys.held, SPEC.keys.index("w", 7), *LISTS)
    assert play(operations.abort(SPEC, 7), [b"a"], 1, [b"b", b"c"], 2, [])[1] == 3
    asked, found = play(operations.finish(SPEC, _stays), [b"a", b"b"], False, True, False)
    assert (found, _moves(asked)) == (2, [b"a", b"b", b"b"])
    assert asked[0].args == (b"ZRANGEBYSCORE", b"qHELD", 0, 0, b"LIMIT", 0, MAX_LISTS)
    assert asked[0].resend


def test_a_key_of_another_type_is_named() -> None:
    steps = operations.committed(SPEC)
    next(steps)
    found: Any = steps.throw(ResponseError("WRONGTYPE Operation against a key"))
    with pytest.raises(KeyTypeError, match=r"queue 'q'.*is a stranger"):  # noqa: PT012
        while isinstance(found, Request) and found.args[0] == b"TYPE":
            found = steps.send(b"stranger")


# --- consumers ----------------------------------------------------------------------------


LEFT = b"t:staged:w:1:a:4:"


def test_a_consumer_looks_for_unfinished_commits_once_a_second() -> None:
    unfinished = UnfinishedCommits("t")
    asked, _ = play(
        unfinished.move_in(_stays), 10.0, [b"t:staged:w:1:a", LEFT], True, 10.1, False, 10.2
    )
    assert isinstance(asked[0], Clock)
    assert asked[1].args[:2] == (b"ZRANGEBYSCORE", b"t:held")
    assert _moves([each for each in asked if isinstance(each, Request)]) == [LEFT, LEFT]
    asked, _ = play(unfinished.move_in(_stays), 10.0 + CHECK_INTERVAL - 0.01)
    assert len(asked) == 1
    asked, _ = play(unfinished.move_in(_stays), 10.0 + CHECK_INTERVAL, [])
    assert len(asked) == 2


def test_a_consumer_that_has_moved_rows_for_a_second_goes_on_with_its_take() -> None:
    unfinished = UnfinishedCommits("t")
    play(unfinished.move_in(_stays), 10.0, [LEFT, LEFT], True, 10.0 + CHECK_INTERVAL)
    play(unfinished.move_in(_stays), 10.0 + CHECK_INTERVAL, [LEFT], False, 11.1)


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
    assert "committed rows of t:held wait: x" in caplog.text


def test_the_keys_of_staged_rows_are_a_format() -> None:
    keys = StagingKeys.of_topic("t")
    assert list(keys.types()) == [b"t:commits", b"t:held", b"t:heldrows"]
    assert keys.index("w", 7) == b"t:staging:w:7"


def test_the_name_of_a_task_that_cannot_be_used_is_shown_with_the_rule() -> None:
    for task in ("", "a:b", "delayed", "a" * 201):
        with pytest.raises(ConfigurationError) as raised:
            operations._check_task(task)
        assert str(raised.value) == (
            "a task's name is 1 to 200 bytes of printable text without any of :*?[]\\{}, and not"
            f" 'delayed': {task!r} cannot be one"
        )
    operations._check_task("elayed")
