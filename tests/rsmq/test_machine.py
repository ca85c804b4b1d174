"""Any sequence of operations leaves the queues as the model says; see `machine`.

``ACKQ_SOAK=20`` tries twenty times as many sequences.
"""

import itertools
import os
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ackq.rsmq import RSMQ, AsyncRSMQ
from tests.facade import AsSync, Portal
from tests.rsmq.machine import RSMQMachine

SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
#: Sequences for each flavour; the asynchronous one takes longer over each.
EXAMPLES = {"sync": 25, "async": 5}


@pytest.mark.timeout(60 * SOAK + 360)  # Hypothesis shortens a failing sequence for five minutes
def test_every_sequence_of_operations_agrees_with_the_model(
    plain_client: redis.Redis, url: str, flavour: str, token: str, portal: Portal
) -> None:
    numbers = itertools.count()

    def make(ns: str, **given: Any) -> Any:
        if flavour == "sync":
            return RSMQ.from_url(url, ns, **given)
        return AsSync(portal, portal.call(AsyncRSMQ.from_url, url, ns, **given))

    class Machine(RSMQMachine):
        make_rsmq = staticmethod(make)
        client = plain_client

        def __init__(self) -> None:
            super().__init__()
            self.url = url
            self.ns = f"{token}-{next(numbers)}"

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=max(1, round(EXAMPLES[flavour] * SOAK)),
            stateful_step_count=40,
            print_blob=True,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
