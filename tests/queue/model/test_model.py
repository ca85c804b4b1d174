"""Any sequence of operations leaves the queue as the model says. See `machine` and `model`.

``ACKQ_SOAK=20`` tries twenty times as many sequences. A failure prints a blob that
``@reproduce_failure`` replays.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import ackq
from tests.facade import AsSync, Portal

from .machine import QueueMachine

SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
#: Sequences for each flavour; the asynchronous one takes longer over each.
EXAMPLES = {"sync": 30, "async": 8}

settings.register_profile(
    "ackq",
    stateful_step_count=40,
    print_blob=True,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)


@pytest.fixture
def make_named_queue(url: str, flavour: str, portal: Portal) -> Callable[..., Any]:
    """``make_named_queue(name, **settings)``: a queue that its user closes."""

    def make(name: str, **settings: Any) -> Any:
        if flavour == "sync":
            return ackq.Queue.from_url(url, name, **settings)
        return AsSync(portal, portal.call(ackq.AsyncQueue.from_url, url, name, **settings))

    return make


# Hypothesis shortens a failing sequence for up to five minutes: a timeout would hide what it found.
@pytest.mark.timeout(60 * SOAK + 360)
def test_every_sequence_of_operations_agrees_with_the_model(
    plain_client: redis.Redis,
    make_named_queue: Callable[..., Any],
    flavour: str,
    token: str,
) -> None:
    numbers = itertools.count()

    class Machine(QueueMachine):
        make_queue = staticmethod(make_named_queue)
        client = plain_client

        def __init__(self) -> None:
            super().__init__()
            self.name = f"{token}-{next(numbers)}"

    examples = max(1, round(EXAMPLES[flavour] * SOAK))
    run_state_machine_as_test(
        Machine, settings=settings(settings.get_profile("ackq"), max_examples=examples)
    )


def test_the_audit_accepts_the_count_of_a_message_that_is_back_on_the_list(
    plain_client: redis.Redis, make_named_queue: Callable[..., Any], token: str
) -> None:
    queue = make_named_queue(token, requeue="back")
    queue.push({"id": "a"})
    queue.nack(queue.pop())
    findings = queue.audit(repair=True).findings
    again = queue.pop()
    queue.close()
    assert findings == ()
    assert again.receive_count == 2
