"""The planted mistakes in the scripts of consumer groups."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "tests.membership.test_scripts"
COUNTS = f"{T}.test_an_assignment_counts_once_and_only_for_its_generation"
SHORT = f"{T}.test_a_reply_is_no_longer_than_it_has_to_be"
ONE = f"{T}.test_one_member_at_a_time_computes_the_assignment"
LEFT = f"{T}.test_a_session_that_left_is_fenced_and_the_others_hear_of_it"
SHARES = f"{T}.test_another_number_of_partitions_is_refused_while_others_are_there"
ENDED = f"{T}.test_a_session_that_ended_is_removed_and_changes_the_generation"
STEP = "tests.membership.test_clock.test_a_step_ends_nobodys_session_early"
HEARTBEAT, ASSIGN, LEAVE = "members/heartbeat", "members/assign", "members/leave"

MUTANTS = (
    Mutant(
        ASSIGN,
        "takes an old generation",
        "'generation')) ~= generation",
        "'generation')) == 0",
        COUNTS,
    ),
    Mutant(
        ASSIGN,
        "assigns twice",
        "  or tonumber(redis.call('HGET', group, 'assigned')) == generation then",
        "  then",
        COUNTS,
    ),
    Mutant(ASSIGN, "keeps former owners", "    redis.call('HDEL', owners, share)\n", "", COUNTS),
    Mutant(ASSIGN, "lets the next one wait", "redis.call('HDEL', group, 'assigning')", "", ONE),
    Mutant(LEAVE, "keeps the session", "redis.call('ZREM', KEYS[1], ARGV[1]) == 0", "false", LEFT),
    Mutant(LEAVE, "tells nobody", "redis.call('HINCRBY', KEYS[2], 'generation', 1)", "", LEFT),
    Mutant(
        HEARTBEAT,
        "lets a session that ended go on",
        "if not mine and joins == '0' then",
        "if false then",
        LEFT,
    ),
    Mutant(
        HEARTBEAT, "any number of partitions", "common ~= shares and others > 0", "false", SHARES
    ),
    Mutant(
        HEARTBEAT, "keeps the owners of another number", "  redis.call('DEL', owners)\n", "", SHARES
    ),
    Mutant(
        HEARTBEAT,
        "keeps sessions that ended",
        "    redis.call('ZREM', members, ended)\n",
        "",
        ENDED,
    ),
    Mutant(
        HEARTBEAT,
        "does not count an ended session as a change",
        "ended)\n    changed = true",
        "ended)",
        ENDED,
    ),
    Mutant(
        HEARTBEAT, "waits for its own end", "nearest[i] ~= session and wait < 0", "wait < 0", SHORT
    ),
    Mutant(
        HEARTBEAT,
        "lists all sessions",
        "'ZREVRANGE', members, 0, 9999",
        "'ZRANGE', members, 0, -1",
        SHORT,
    ),
    Mutant(
        HEARTBEAT,
        "lists the sessions that end first",
        "'ZREVRANGE', members",
        "'ZRANGE', members",
        SHORT,
    ),
    Mutant(HEARTBEAT, "gives a member the partitions of all", "owned[i] == session", "true", SHORT),
    Mutant(HEARTBEAT, "counts no members", "redis.call('ZCARD', members), own", "0, own", SHORT),
    Mutant(
        HEARTBEAT,
        "gives a known assignment again",
        "if known == generation and assigned == generation",
        "if false",
        SHORT,
    ),
    Mutant(
        HEARTBEAT, "lets all compute at once", "assigning > 0 and assigning <= 50000", "false", ONE
    ),
    Mutant(HEARTBEAT, "waits too long", "now + 50000", "now + 500000", ONE),
    Mutant(HEARTBEAT, "waits for a time that is far", " and assigning <= 50000", "", ONE),
    Mutant(
        HEARTBEAT, "ends sessions early after a step", "if step > 0 then", "if false then", STEP
    ),
)
