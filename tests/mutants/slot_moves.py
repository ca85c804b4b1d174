"""Planted mistakes that only show while a slot of a cluster is moved."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "tests.faults.test_failover.test_a_topic_is_committed_and_read_on_while_its_slot_moves"
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
)
