"""The facts of pop_from.lua: see `tests.facts.facts`."""

from __future__ import annotations

from ackq.queue import pop_from
from ackq.queue.keys import QueueKeys
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts, Mistake
from tests.facts.parts import FREES_NO_MEMORY

FACTS = Facts(
    "pop_from",
    calls=(
        ("record",),
        ("forget",),
    ),
    changes_nothing=True,
    operation=lambda: pop_from.record(QueueKeys.of("jobs", "left")),
    replies=[b"left"],
    passes={"verb": [b"record"]},
    mistakes={
        "test_left_end.test_an_end_in_use_is_not_taken_over": (
            Mistake(
                "takes over an end in use",
                "if claimed + leased > 0 then",
                "if false then",
                given={"use": "lease"},
            ),
        ),
        "test_left_end.test_a_lease_that_ended_does_not_hold_up_the_other_end": (
            Mistake(
                "an ended lease holds up",
                "redis.call('ZCOUNT', backup, now, '+inf')",
                "redis.call('ZCARD', backup)",
            ),
        ),
        "test_left_end.test_a_string_of_another_program_is_no_record": (
            Mistake(
                "overwrites the key of another program",
                "local claimed = redis.call('ZCARD', record)",
                "local claimed = 0",
                given={"verb": "record"},
            ),
        ),
        "test_left_end.test_a_record_stays_while_messages_depend_on_it": (
            Mistake(
                "forgets claims",
                "redis.call('ZCARD', held) + redis.call('ZCARD', delayed)",
                "redis.call('ZCARD', delayed)",
                given={"use": "hold"},
            ),
            Mistake(
                "forgets leases",
                "used + redis.call('ZCARD', backup) > 0",
                "used > 0",
                given={"use": "lease"},
            ),
            Mistake(
                "forgets delayed messages",
                "redis.call('ZCARD', held) + redis.call('ZCARD', delayed)",
                "redis.call('ZCARD', held)",
                given={"use": "delay"},
            ),
        ),
        "test_left_end.test_the_record_of_an_empty_queue_is_forgotten": (
            Mistake("never forgets", "  redis.call('DEL', record)\n", ""),
        ),
        "test_left_end.test_the_left_end_is_recorded_on_a_full_server": (FREES_NO_MEMORY,),
    },
)


@FACTS.worst("1,000,000 leases that ended")
def record_left_end(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=1, step=1)
    queue = scene.queue(pop_from="left")
    return times(100, lambda: queue.execute(lambda spec: pop_from.record(spec.keys)))
