"""Producers and consumers are killed and frozen."""

import random

from tests.products import LEASE

from .stage import Stage, nemesis


@nemesis("kill a consumer")
def kill_consumer(stage: Stage, draw: random.Random) -> None:
    with stage.fault("kill a consumer"):
        stage.crew.kill("consumer", draw)


@nemesis("kill a worker process")
def kill_worker_process(stage: Stage, draw: random.Random) -> None:
    """Its parent starts another in its place."""
    with stage.fault("kill a worker process") as effect:
        effect.times = stage.crew.kill_a_child("consumer", draw)


@nemesis("freeze a worker process")
def freeze_worker_process(stage: Stage, draw: random.Random) -> None:
    """For longer than a lease, while its parent goes on."""
    with stage.fault("freeze a worker process") as effect:
        thaw = stage.crew.freeze_a_child("consumer", draw)
        effect.times = int(thaw is not None)
        if thaw is not None:
            stage.later(LEASE * draw.uniform(1.1, 2.5), thaw)


@nemesis("kill a producer")
def kill_producer(stage: Stage, draw: random.Random) -> None:
    with stage.fault("kill a producer"):
        stage.crew.kill("producer", draw)


@nemesis("freeze a consumer")
def freeze_consumer(stage: Stage, draw: random.Random) -> None:
    """For longer than a lease, so that it settles what it no longer holds."""
    with stage.fault("freeze a consumer"):
        stage.later(LEASE * draw.uniform(1.1, 2.5), stage.crew.freeze("consumer", draw))


@nemesis("freeze a producer")
def freeze_producer(stage: Stage, draw: random.Random) -> None:
    with stage.fault("freeze a producer"):
        stage.later(draw.uniform(0.1, 1.0), stage.crew.freeze("producer", draw))
