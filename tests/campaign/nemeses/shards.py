"""The number of a queue's shards changes."""

import random
import signal

from tests.campaign.workloads.sharded import resize
from tests.faults.children import end, start

from .stage import Stage, nemesis

#: Seconds within which a process that resizes is killed, half of the times.
KILLED_WITHIN = 0.03


@nemesis("resize the queue")
def resize_queue(stage: Stage, draw: random.Random) -> None:
    """By a process that may be killed halfway."""
    with stage.fault("resize the queue"):
        resizer = start(resize, stage.crew.site, draw.randint(1, 6))
        resizer.join(draw.uniform(0, KILLED_WITHIN) if draw.random() < 0.5 else None)
        end(resizer)
        assert resizer.exitcode in (0, -signal.SIGKILL)
