"""Every mistake planted in a script of staging is noticed by the test that is named beside it."""

from __future__ import annotations

import pytest

from tests.mutants.planting import Mutant
from tests.servers import Target
from tests.staging.test_delay import delays, writer
from tests.staging.test_scripts import space
from tests.staging.test_topic import topic

__all__ = ["delays", "space", "topic", "writer"]  # fixtures of the tests that are run here

ONCE = "test_staging.test_a_batch_that_was_committed_is_dropped"
EXPIRES = "test_staging.test_what_is_staged_expires_and_what_is_committed_does_not"
SEEN = "test_staging.test_rows_are_seen_after_the_commit_and_in_their_order"
CLEAN = "test_staging.test_attempts_that_the_commit_does_not_name_are_deleted"
TOPIC = "test_topic.test_rows_get_the_next_indexes_in_their_order"
DELAY = "test_delay.test_rows_become_messages_with_the_commit"
TAKEN = "test_delay.test_a_key_that_is_stored_with_another_body_makes_a_dead_letter"

PUBLISHED = "test_scripts.test_one_call_publishes_a_mebibyte_or_a_thousand_rows"
LEFT = "test_scripts.test_what_others_left_under_a_key_is_not_the_new_messages"
WOKEN = "test_scripts.test_one_consumer_is_woken_by_the_next_message_and_only_by_it"
BOUNDED = "test_scripts.test_a_body_without_a_time_is_due_now_and_a_time_is_bounded"
ORDERED = "test_scripts.test_rows_for_one_time_keep_their_order"
STORED = "test_scripts.test_one_call_stores_a_mebibyte"
BEHIND = "test_scripts.test_a_list_goes_behind_ready_messages_in_steps"
BECOMES = "test_scripts.test_a_list_of_any_length_becomes_the_ready_list_if_no_message_is_ready"
SHORT, LONG = [b"%d" % n for n in range(2010)], [b"x" * 400_000] * 5

MUTANTS = (
    Mutant(
        "queue",
        "replaces ready messages",
        "if waiting == 0 then",
        "if waiting then",
        BEHIND,
        {"bodies": SHORT, "replies": [1010, 10, 0]},
    ),
    Mutant(
        "queue",
        "moves a list row by row though none is ready",
        "if waiting == 0 then",
        "if not waiting then",
        BECOMES,
    ),
    Mutant(
        "queue",
        "the ready list expires",
        "  redis.call('PERSIST', ready)\n",
        "",
        "test_scripts.test_a_list_that_would_expire_becomes_a_ready_list_that_does_not",
    ),
    Mutant(
        "queue",
        "at the front",
        "redis.call('LPUSH', ready",
        "redis.call('RPUSH', ready",
        BEHIND,
        {"bodies": SHORT, "replies": [1010, 10, 0]},
    ),
    Mutant(
        "queue",
        "any number in one step",
        "CHUNK = 1000",
        "CHUNK = 10000",
        BEHIND,
        {"bodies": SHORT, "replies": [1010, 10, 0]},
    ),
    Mutant(
        "queue",
        "large rows by the slice",
        "math.floor((BODY_BUDGET - bytes) / largest)",
        "SLICE",
        BEHIND,
        {"bodies": LONG, "replies": [2, 0]},
    ),
    Mutant(
        "queue",
        "the count is left behind",
        "  redis.call('HSET', heldrows, list, left)\n",
        "",
        "test_scripts.test_the_count_of_what_is_left_is_kept",
    ),
    Mutant(
        "queue",
        "moves what is not committed",
        "if redis.call('ZSCORE', held, list) ~= '0' then",
        "if false then",
        "test_scripts.test_a_list_that_is_not_committed_is_left_alone",
        {"script": "staging/queue", "slot": "moving", "reply": 0},
    ),
    Mutant(
        "commit", "knows no marker", "if marker >= batch then", "if false then", ONCE, {"batch": 7}
    ),
    Mutant(
        "commit",
        "takes the same batch again",
        "marker >= batch",
        "marker > batch",
        ONCE,
        {"batch": 7},
    ),
    Mutant(
        "commit",
        "sets no marker",
        "redis.call('HSET', commits, writer, string.format('%.0f', batch))",
        "",
        ONCE,
        {"batch": 7},
    ),
    Mutant("commit", "lets committed rows expire", "  redis.call('PERSIST', list)\n", "", EXPIRES),
    Mutant("commit", "forgets the rows", "  redis.call('ZADD', held, 0, list)\n", "", SEEN),
    Mutant(
        "commit",
        "does not count",
        "redis.call('LLEN', KEYS[HEAD + i]) ~= staged",
        "false",
        "test_staging.test_rows_that_were_pushed_twice_fail_the_commit",
    ),
    Mutant(
        "commit",
        "a batch of fourteen digits",
        "string.format('%.0f', batch)",
        "tostring(batch)",
        "test_scripts.test_a_commit_keeps_the_lists_and_marks_the_batch",
    ),
    Mutant(
        "stage", "lets rows live for ever", "redis.call('PEXPIRE', list, ARGV[1])\n", "", EXPIRES
    ),
    Mutant(
        "stage",
        "lets the index live for ever",
        "redis.call('PEXPIRE', index, ARGV[1])\n",
        "",
        "test_scripts.test_a_list_is_begun_once_with_a_time_to_live",
    ),
    Mutant("stage", "does not note the list", "redis.call('SADD', index, list)\n", "", CLEAN),
    Mutant(
        "stage",
        "adds to a list that is there",
        "return 0",
        "local _ = 0",
        "test_scripts.test_a_list_is_begun_once_with_a_time_to_live",
    ),
    Mutant(
        "drop",
        "deletes what is committed",
        "not redis.call('ZSCORE', held, list) and ",
        "",
        "test_staging.test_an_abort_after_the_commit_deletes_nothing",
    ),
    Mutant(
        "drop",
        "deletes what is somebody else's",
        " and redis.call('TYPE', list).ok == 'list'",
        "",
        "test_scripts.test_what_is_committed_or_foreign_is_not_dropped",
    ),
    Mutant(
        "merge",
        "takes the last row first",
        "'RIGHT', 'LEFT'",
        "'LEFT', 'LEFT'",
        "test_staging.test_the_lists_of_many_tasks_are_merged",
    ),
    Mutant(
        "merge",
        "creates the list again",
        "  return -1 --",
        "  local _ = -1 --",
        "test_scripts.test_a_merge_needs_a_list_to_merge_into",
    ),
    Mutant(
        "topic",
        "leaves published rows on the list",
        "redis.call('LTRIM', list, 0, -count - 1)",
        "redis.call('LTRIM', list, 0, -count)",
        TOPIC,
    ),
    Mutant(
        "topic",
        "publishes the last row first",
        "redis.call('LINDEX', list, -count)",
        "redis.call('LINDEX', list, count - 1)",
        TOPIC,
    ),
    Mutant(
        "topic",
        "any number of bytes in one call",
        "local BODY_BUDGET = 1048576",
        "local BODY_BUDGET = 1e12",
        PUBLISHED,
    ),
    Mutant(
        "topic",
        "any number of rows in one call",
        "local MOST = 1000",
        "local MOST = 1500",
        PUBLISHED,
    ),
    Mutant(
        "topic",
        "leaves the row count as it was",
        "  redis.call('HSET', heldrows, list, left)\n",
        "",
        PUBLISHED,
    ),
    Mutant(
        "topic",
        "publishes under a wrong guess",
        "if newest < guess or",
        "if",
        "test_scripts.test_a_wrong_guess_publishes_nothing",
    ),
    Mutant(
        "delay",
        "any number of bytes in one call",
        "local BODY_BUDGET = 1048576",
        "local BODY_BUDGET = 1e12",
        STORED,
    ),
    Mutant(
        "delay",
        "a lease of another is the new message's",
        "    count_up(first, 'ended', redis.call('ZREM', KEYS[first + 2], key))\n",
        "",
        LEFT,
    ),
    Mutant(
        "delay",
        "a count of another is the new message's",
        "    redis.call('HDEL', KEYS[first + 4], key)\n",
        "",
        LEFT,
    ),
    Mutant("delay", "wakes nobody", "    redis.call('LPUSH', KEYS[first + 6], '1')\n", "", WOKEN),
    Mutant(
        "delay", "wakes many", "and redis.call('LLEN', KEYS[first + 6]) == 0 then", "then", WOKEN
    ),
    Mutant("delay", "wakes for what is not the next", "stored[nearest] and", "", WOKEN),
    Mutant(
        "delay",
        "a body without a time stays without",
        "    redis.call('ZADD', KEYS[first], score_of(now), key)\n",
        "",
        BOUNDED,
    ),
    Mutant("delay", "any time", "math.min(latest[same], LATEST)", "latest[same]", BOUNDED),
    Mutant(
        "topic",
        "wakes nobody of a topic that was started again",
        "    redis.call('DEL', wake)\n"
        "    redis.call('XADD', wake, 'MAXLEN', '~', 1, id, 'n', '')\n",
        "",
        "test_scripts.test_a_topic_that_was_begun_anew_wakes_its_consumers",
    ),
    Mutant(
        "delay",
        "leaves the row count as it was",
        "  redis.call('HSET', heldrows, list, left)\n",
        "",
        STORED,
    ),
    Mutant(
        "merge",
        "any number of bytes in one call",
        "local BODY_BUDGET = 1048576",
        "local BODY_BUDGET = 1e12",
        "test_scripts.test_one_call_merges_a_mebibyte",
    ),
    Mutant(
        "commit",
        "does not note the rows",
        "  redis.call('HSET', heldrows, list, ARGV[rows - 1 + i])\n",
        "",
        "test_scripts.test_a_commit_keeps_the_lists_and_marks_the_batch",
    ),
    Mutant(
        "commit",
        "blames the first list",
        "return {'lost', i}",
        "return {'lost', 1}",
        "test_staging.test_rows_that_expired_fail_the_commit_and_nothing_of_it_is_seen",
    ),
    Mutant(
        "topic",
        "publishes what is not committed",
        "if not redis.call('ZSCORE', held, list)",
        "if false",
        "test_scripts.test_a_list_that_is_not_committed_is_left_alone",
        {"script": "staging/topic", "slot": "moving", "reply": [b"ok", 0, 0]},
    ),
    Mutant(
        "topic",
        "overwrites",
        "redis.call('EXISTS', unpack(messages)) > 0",
        "false",
        "test_topic.test_a_message_beyond_the_newest_index_is_not_overwritten",
    ),
    Mutant(
        "topic",
        "wakes nobody",
        "local id = newest_text .. '-0'",
        "do return {'ok', newest, 0} end local id = newest_text",
        TOPIC,
    ),
    Mutant(
        "delay",
        "drops a row whose key is taken",
        "if is_other(row) then",
        "if is_other(row) and false then",
        TAKEN,
    ),
    Mutant(
        "delay",
        "takes any body for the same",
        "== 0 then\n    return differs(row)\n  end\n  if redis.call('HSETNX',",
        "== 0 then\n    return false\n  end\n  if redis.call('HSETNX',",
        TAKEN,
    ),
    Mutant(
        "delay",
        "skips a row",
        "redis.call('LTRIM', list, 0, -#rows - 1)",
        "redis.call('LTRIM', list, 0, -#rows - 2)",
        DELAY,
    ),
    Mutant(
        "delay",
        "is early",
        "score_of(math.min(latest[same], LATEST))",
        "1",
        "test_delay.test_rows_are_ready_at_their_time",
    ),
    Mutant(
        "delay", "one time for all rows of a call", "latest[same] + 1\n", "latest[same]\n", ORDERED
    ),
    Mutant(
        "delay",
        "a later call begins at the same time",
        "or behind(KEYS[first], row.due, score_of(row.due))",
        "or row.due",
        ORDERED,
    ),
)


@pytest.fixture
def partitions() -> None:
    """A delay queue without partitions."""


@pytest.mark.one_server
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_planted_mistake_is_noticed(
    mutant: Mutant,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    target: Target,
) -> None:
    assert mutant.is_noticed("staging", request, monkeypatch)
