"""Planted mistakes that only show while a slot of a cluster is moved."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "tests.faults.test_failover.test_a_topic_is_committed_and_read_on_while_its_slot_moves"
GROUP = "tests.faults.test_failover.test_a_group_is_assigned_on_while_its_slot_moves"
LIST = "tests.faults.test_failover.test_no_message_is_left_without_a_lease_while_its_slot_moves"

MUTANTS = (
    *(
        Mutant(
            script,
            f"takes the lease of a {settle} before it reads the count",
            "  local count = tonumber(redis.call('HGET', receives, key)) or 1\n",
            "  local was_leased = redis.call('ZREM', backup, key)\n"
            "  local count = tonumber(redis.call('HGET', receives, key)) or 1\n"
            "  redis.call('ZADD', backup, was_leased, key)\n",
            LIST,
            {"settle": settle},
        )
        for script, settle in (("nack", "release"), ("reject", "reject"))
    ),
    Mutant(
        "topic/commit",
        "looks at what it has emptied",
        "if place ~= before then\n",
        "redis.call('ZCARD', leases)\nif place ~= before then\n",
        T,
        error=True,
    ),
    Mutant(
        "topic/consume",
        "removes the old range before it adds the new one",
        "if old then\n  replace_old()\nend\n",
        "if old then\n  replace_old()\n  remove_old()\nend\n",
        T,
        error=True,
    ),
    Mutant(
        "members/assign",
        "removes the former owners before it writes the new ones",
        "redis.call('HDEL', group, 'assigning')\n",
        "redis.call('HDEL', group, 'assigning')\nredis.call('DEL', owners)\n",
        GROUP,
        error=True,
    ),
    Mutant(
        "members/heartbeat",
        "ends the other sessions before it joins",
        "redis.call('ZADD', members, string.format('%.0f', now + timeout), session)\n",
        "redis.call('ZREMRANGEBYSCORE', members, '-inf', over)\n"
        "redis.call('ZADD', members, string.format('%.0f', now + timeout), session)\n",
        GROUP,
        error=True,
    ),
    Mutant(
        "members/heartbeat",
        "reads the owners that it has removed",
        "common == shares and redis.call('HGETALL', owners) or {}",
        "redis.call('HGETALL', owners)",
        GROUP,
        error=True,
    ),
)
