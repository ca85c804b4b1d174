"""The group that `python -m benchmarks fleet` simulates answers as the scripts do."""

import random
from typing import Any

import pytest
import redis

from ackq.core.effects import Request
from ackq.membership.operations import GroupSpec
from benchmarks.fleet.virtual import Costs, Group, Virtual
from benchmarks.fleet.world import Consumer

COSTS = Costs(known=1e-4, changed=2e-4, unassigned=5e-4, alone=2e-4, assign=6e-4, members=20)


def _comparable(reply: Any) -> Any:
    """Return a reply without the order of members and of partitions."""
    if not isinstance(reply, list) or len(reply) < 6:
        return reply
    ok, generation, assigned, wait, members, shares = reply
    if generation == assigned:
        return [ok, generation, assigned, wait, members, sorted(shares)]
    pairs = zip(shares[::2], shares[1::2], strict=True)
    return [ok, generation, assigned, wait, sorted(members), sorted(pairs)]


def _run(client: redis.Redis, request: Request, now: float) -> Any:
    """Run a script at that time, in seconds."""
    assert request.script is not None
    microseconds = round(now * 1e6)
    clock = f"{{'{microseconds // 10**6}', '{microseconds % 10**6}'}}"
    text = request.script.text.decode().replace("redis.call('TIME')", clock)
    arguments: Any = request.args
    return client.eval(text, *arguments)


@pytest.mark.parametrize("seed", range(5))
def test_the_model_of_a_group_replies_as_the_scripts_do(
    plain_client: redis.Redis, token: str, seed: int
) -> None:
    draw = random.Random(seed)
    spec = GroupSpec.of(token, 6, 4.0)
    group, now, costs = Group(COSTS), 1000.0, set()

    def ask(request: Request) -> Any:
        real, (modelled, cost) = _run(plain_client, request, now), group.answer(request, now)
        costs.add(cost)
        assert _comparable(modelled) == _comparable(real)
        return real

    consumers = [Consumer(spec, f"{number}") for number in range(5)]
    for step in range(120):
        now += draw.choice((0.015625, 0.25))
        consumer = draw.choice(consumers)
        request = consumer.go_on()
        while request is not None:
            request = consumer.go_on(ask(request))
            if request is not None and draw.random() < 0.3:
                # Another one comes in between, and is silent from then on.
                joining = Consumer(spec, f"late {step}").go_on()
                assert joining is not None
                ask(joining)
    assert {COSTS.known, COSTS.changed, COSTS.assign} < costs
    plain_client.unlink(*spec.keys.all())


def test_a_simulated_group_agrees_after_starts_and_deaths() -> None:
    spec = GroupSpec.of("g", 6, 3.0)
    course = Virtual(spec, 20, 1, COSTS).course(1.0)
    assert 0 < course.settled < 1.2  # all hear of the last one within a second
    assert 2.0 < course.recovered < 4.2
    assert course.steady == pytest.approx(100 * 20 * COSTS.known, rel=0.3)
    assert course.starting > course.steady
