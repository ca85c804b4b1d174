"""The planted mistakes in what tells the age of the oldest ready message."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "test_oldest"
EARLIEST = f"{T}.test_of_redelivered_and_due_messages_the_earliest_counts"
UNTIMED = f"{T}.test_a_list_that_came_back_without_a_time_is_ready_since_an_unknown_time"
NEXT = f"{T}.test_of_the_lists_the_message_that_is_taken_next_is_returned"
BODIES = f"{T}.test_a_body_without_a_time_or_too_long_is_not_returned"

MUTANTS = (
    Mutant(
        "oldest",
        "the latest counts",
        "math.min(since, tonumber(score) or math.huge)",
        "math.max(since < math.huge and since or 0, tonumber(score) or 0)",
        EARLIEST,
    ),
    Mutant(
        "oldest",
        "running leases count",
        "backup, '-inf', now_text",
        "backup, '-inf', '+inf'",
        EARLIEST,
    ),
    Mutant(
        "oldest",
        "delayed messages count",
        "delayed, '-inf', now_text",
        "delayed, '-inf', '+inf'",
        EARLIEST,
    ),
    Mutant(
        "oldest", "running claims count", "held, '-inf', now_text", "held, '-inf', '+inf'", EARLIEST
    ),
    Mutant(
        "oldest",
        "lists of delayed messages count",
        "string.sub(lists[i], -8) ~= ':delayed'\n    and ",
        "",
        EARLIEST,
    ),
    Mutant(
        "oldest",
        "lists without messages count",
        "tonumber(redis.call('HGET', heldrows, lists[i]) or 0) > 0",
        "true",
        EARLIEST,
    ),
    Mutant(
        "oldest",
        "a list without a time is ready since 1970",
        "tonumber(lists[i + 1]) > 0",
        "true",
        UNTIMED,
    ),
    Mutant(
        "oldest", "a list without a time is not ready", "listed = listed or untimed", "", UNTIMED
    ),
    Mutant(
        "oldest",
        "reads the other end",
        "pop_from == 'left' and 0 or -1",
        "pop_from == 'left' and -1 or 0",
        NEXT,
        {"end": "right"},
    ),
    Mutant(
        "oldest",
        "does not know the left end",
        "pop_from == 'left' and 0 or -1",
        "-1",
        NEXT,
        {"end": "left"},
    ),
    Mutant(
        "oldest",
        "the hand-off list comes last",
        "redis.call('LINDEX', handoff, -1)\n    or ",
        "",
        NEXT,
        {"end": "right"},
    ),
    Mutant(
        "oldest",
        "reads the hand-off list from the left",
        "'LINDEX', handoff, -1",
        "'LINDEX', handoff, 0",
        NEXT,
        {"end": "right"},
    ),
    Mutant("oldest", "returns bodies of any length", "#body > LONGEST or ", "", BODIES),
    Mutant(
        "oldest",
        "returns bodies that need not have a time",
        " or not (has(body, member) or has(body, other))",
        "",
        BODIES,
    ),
    Mutant("oldest", "a part of a name counts", "'\"' .. name .. '\"'", "name", BODIES),
    Mutant("oldest", "only the last name counts", "has(body, member) or ", "", BODIES),
)
