"""The server's clock jumps."""

import random

from .stage import Stage, nemesis

STEPS = (0.3, 60.0, 600.0, 86_400.0)


@nemesis("set the clock forward")
def step_forward(stage: Stage, draw: random.Random) -> None:
    """It stays ahead: leases that were given meanwhile must end some day."""
    with stage.fault("set the clock forward", clock=True):
        stage.on.machine.step_clock(draw.choice(STEPS))


@nemesis("set the clock back")
def step_back(stage: Stage, draw: random.Random) -> None:
    """It goes back, and a moment later ahead again."""
    step = draw.choice(STEPS)
    with stage.fault("set the clock back", clock=True):
        stage.on.machine.step_clock(-step)

    def restore() -> None:
        with stage.fault("set the clock forward", clock=True):
            stage.on.machine.step_clock(step)

    stage.later(draw.uniform(0.2, 1.0), restore)
