"""``python -m tests.campaign.soak --for 1h``: does anything grow?

A producer, a consumer and a worker run all the time, beside others that are killed, and so is the
server now and then. Memory, descriptors, threads, connections and keys are read all along. In the
end the queue is drained, the history is checked, and the figures are drawn for docs/campaign.md.
"""

import argparse
import contextlib
import dataclasses
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import redis

from tests import histories
from tests.histories.log import FileLog, now

from . import schedule
from .crew import Crew
from .deployments import Single, deploy
from .nemeses import NEMESES, Stage
from .report import SOAK, UNITS
from .run import DRAINED_WITHIN, drain, environment
from .scenarios import Scenario
from .workloads import WORKLOADS
from .workloads.rig import run_blocking

SCENARIO = Scenario(
    "soak",
    "worker, threads",
    {"kill a consumer": 2.0, "kill a producer": 5.0, "kill the server": 60.0},
)
SAMPLES = 240
Sample = dict[str, Any]


def soak(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """Run for this long, and return what was read and found."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "history").mkdir(parents=True)
    worker = WORKLOADS[SCENARIO.workload]
    about = {**environment(), "seconds": seconds, "seed": seed}
    samples: list[Sample] = []
    with deploy(SCENARIO, folder) as deployment, contextlib.ExitStack() as stack:
        assert isinstance(deployment, Single)
        settings = worker.rules | {"drain_within": DRAINED_WITHIN} | about
        (folder / "settings.json").write_text(json.dumps(settings))
        log = FileLog(folder / "history" / "nemeses.jsonl")
        crews = [
            stack.enter_context(contextlib.closing(each))
            for each in (
                Crew(
                    deployment.site,
                    dataclasses.replace(WORKLOADS["queue"], pace=0.02),
                    folder,
                    seed,
                    {"consumer": 2, "producer": 2},
                    spared=1,
                ),
                Crew(deployment.site, worker, folder, seed, {"consumer": 1}, "w", spared=1),
            )
        ]
        stage = Stage(deployment, crews[0], log)
        begin = now()
        for number in range(SAMPLES + 1):
            # Not at once: by then all threads have a connection.
            at = (number + 1) * seconds / (SAMPLES + 2)
            stage.later(at, lambda at=at: samples.append(_sample(at, deployment, crews)))  # type: ignore[misc]
        for strike in schedule.draw_schedule(seed, seconds, SCENARIO.faults):
            stage.wait_until(begin + strike.at)
            NEMESES[strike.nemesis](stage, strike.draw)
        stage.wait_until(begin + seconds)
        stage.settle()
        crews[0].finish("producer")
        for crew in crews:
            crew.finish("consumer")
        rig = worker.rig(deployment.site, worker)
        try:
            left = drain(rig, FileLog(folder / "history" / "drain.jsonl"), DRAINED_WITHIN)
            log.write(do="left", **left)
        finally:
            run_blocking(rig.close())
        about["server"] = deployment.release
    verdict = histories.check(folder)
    print(verdict)
    return {"about": about, "verdict": verdict.as_json(), "samples": samples}


def _sample(at: float, deployment: Single, crews: list[Crew]) -> Sample:
    processes = [psutil.Process(each.pid) for crew in crews for each in crew.spared]
    with redis.Redis.from_url(deployment.server.url) as client:
        info: Any = client.info()
        keys = client.dbsize()
    return {
        "at": round(at, 1),
        "memory of the processes": [process.memory_info().rss / 1e6 for process in processes],
        "descriptors": [process.num_fds() for process in processes],
        "threads": [process.num_threads() for process in processes],
        "memory of the server": [info["used_memory"] / 1e6],
        "connections": [info["connected_clients"]],
        "keys": [keys],
    }


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw what was read over the time, with the first and the last value."""
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(2, 3, figsize=(9, 4.5), layout="constrained")
    times = [each["at"] / 60 for each in result["samples"]]
    names = ("consumer", "producer", "worker")
    for place, (name, unit) in zip(places.flat, UNITS.items(), strict=True):
        lines = list(zip(*(each[name] for each in result["samples"]), strict=True))
        for number, values in enumerate(lines):
            label = names[number] if len(lines) > 1 else None
            place.plot(times, values, linewidth=1, label=label)
        first, last = (f"{sum(line[at] for line in lines):.0f}" for at in (0, -1))
        place.set_title(f"{name}: {first} → {last} {unit}".rstrip(), fontsize=9)
        place.set_ylim(bottom=0)
        place.tick_params(labelsize=7)
        if len(lines) > 1:
            place.legend(fontsize=6, loc="lower right")
    figure.supxlabel("minutes", fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def seconds_of(text: str) -> float:
    """Return the seconds of a time such as 90, 5m or 1h."""
    units = {"s": 1, "m": 60, "h": 3600}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text)


def main() -> int:
    """Run, and store the result; return 1 if a rule was broken."""
    parser = argparse.ArgumentParser("python -m tests.campaign.soak", description=__doc__)
    parser.add_argument(
        "--for",
        dest="seconds",
        type=seconds_of,
        default=3600.0,
        metavar="TIME",
        help="how long: seconds, or 5m, or 1h. Defaults to 1h",
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    # A server's include is relative to its own folder, so the path is absolute.
    parser.add_argument(
        "--folder", type=lambda folder: Path(folder).resolve(), default=".campaign/soak"
    )
    parser.add_argument("--into", type=Path, default=SOAK, help="defaults to docs/_campaign/soak")
    options = parser.parse_args()
    result = soak(options.seconds, options.seed, options.folder)
    options.into.mkdir(parents=True, exist_ok=True)
    (options.into / "soak.json").write_text(json.dumps(result) + "\n")
    draw(result, options.into / "soak.svg")
    return bool(result["verdict"]["violations"])


if __name__ == "__main__":
    sys.exit(main())
