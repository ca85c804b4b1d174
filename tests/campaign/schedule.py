"""Which fault strikes when: it follows from the seed, and is stored beside the history."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Strike:
    """One fault: seconds after the start, its name, and the seed of what else it draws."""

    at: float
    nemesis: str
    seed: int

    @property
    def draw(self) -> random.Random:
        """The random numbers of this fault."""
        return random.Random(self.seed)


def draw_schedule(seed: int, seconds: float, intervals: Mapping[str, float]) -> list[Strike]:
    """Return the faults of a run.

    Args:
        seed: the same seed gives the same schedule.
        seconds: length of the run.
        intervals: mean seconds between two faults, by nemesis.
    """
    strikes = []
    for nemesis, interval in intervals.items():
        draw = random.Random(f"{seed} {nemesis}")
        at = draw.uniform(0.2, 1.0) * interval
        while at < seconds:
            strikes.append(Strike(round(at, 3), nemesis, draw.randrange(1 << 30)))
            at += draw.uniform(0.5, 1.5) * interval
    return sorted(strikes, key=lambda each: each.at)


def store(path: Path, schedule: list[Strike]) -> None:
    """Write a schedule as JSON."""
    path.write_text(json.dumps([asdict(each) for each in schedule], indent=0))


def load(path: Path) -> list[Strike]:
    """Read what `store` wrote."""
    return [Strike(**each) for each in json.loads(path.read_text())]


def shrunk(
    strikes: list[Strike], fails: Callable[[list[Strike]], bool], attempts: int = 20
) -> list[Strike]:
    """Return fewer strikes with which a run still fails: halves, quarters, ... are left out.

    Args:
        strikes: a schedule with which a run failed.
        fails: runs a schedule, and returns whether a rule was broken.
        attempts: how many runs at most. Defaults to 20.
    """
    size = (len(strikes) + 1) // 2
    while size and attempts:
        at = 0
        while at < len(strikes) and attempts:
            fewer = strikes[:at] + strikes[at + size :]
            attempts -= 1
            if fails(fewer):
                strikes = fewer
            else:
                at += size
        size //= 2
    return strikes
