"""The previous release and this one work on one queue, as during a deployment."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign.run import drain
from tests.campaign.site import Site
from tests.campaign.workloads import WORKLOADS
from tests.campaign.workloads.listed import ListRig
from tests.campaign.workloads.rig import Role, consume, produce
from tests.histories import check
from tests.histories.log import FileLog, read
from tests.waiting import wait_until

from .conftest import Release
from .handover import (
    leave,
    take_over,
)

#: Messages that each release must have taken from the other, and redeliveries between them.
ENOUGH = 20


@pytest.mark.parametrize("upgrade", [True, False], ids=["upgrade", "rollback"])
def test_a_release_finishes_what_the_other_left(
    previous: Release, current: Release, upgrade: bool, url: str, name: str
) -> None:
    first, second = (previous, current) if upgrade else (current, previous)
    first.call(leave, url, name)
    assert second.call(take_over, url, name) == {
        "findings": [],
        "dead": [['{"id":"rejected"}', "too large"]],
        "pushed twice": "unique",
        "deliveries": {
            '{"id":"expired"}': 2,
            '{"id":"extended"}': 2,
            '{"id":"nacked"}': 2,
            '{"id":"released"}': 1,
            '{"id":"rejected"}': 1,
            '{"id":"delayed"}': 1,
            '{"id":"unique"}': 1,
            "not json": 1,
            '{"id":"staged"}': 1,
        },
        "committed": 1,
        "epoch": 2,
        "claims": [[1, 2]],
        "claimed": ['{"id":"claimed-1"}', '{"id":"claimed-2"}'],
        "acked": 2,
        "delay": {"leased": 2, "later": 1},
        "read": [2, 3],
        "mail": {"one": 2, "two": 1},
    }


def test_both_work_on_one_queue_at_the_same_time(
    previous: Release, current: Release, url: str, name: str, tmp_path: Path
) -> None:
    history, workload = tmp_path / "history", WORKLOADS["queue, late"]
    history.mkdir()
    (tmp_path / "settings.json").write_text(json.dumps({**workload.rules, "order": False}))
    site = Site("server", int(url.rpartition(":")[2]), name)
    enough, done = tmp_path / "enough", tmp_path / "done"
    with contextlib.ExitStack() as stack:
        processes = [
            (release, stack.enter_context(ended(release.start(what, role))))
            for release in (previous, current)
            for what, role in (
                (produce, Role(site, workload, history, f"{release.name}-p", 1, enough)),
                (consume, Role(site, workload, history, f"{release.name}-c", 2, done)),
            )
        ]
        wait_until(lambda: mixed(history), "messages to pass between the releases", timeout=40)
        enough.touch()
        for release, process in processes[::2]:
            release.result(process)
        log = FileLog(history / "end.jsonl")
        done.touch()
        for release, process in processes[1::2]:
            release.result(process)
    left = drain(ListRig(site, workload), FileLog(history / "drain.jsonl"), within=30)
    left["totals"] = None  # the previous release does not count
    log.write(do="left", **left)
    verdict = check(tmp_path)
    assert verdict.sound, str(verdict)
    assert verdict.refused > 0, "no settle came too late: fencing was not tried"


@contextlib.contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End the process, however the test ends."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def mixed(history: Path) -> bool:
    """Whether each release has taken enough of the other's messages, and its redeliveries."""
    taken: list[tuple[float, str, str]] = []
    late = False
    for release in ("previous", "current"):
        path = history / f"{release}-c.jsonl"
        for event in read(path) if path.exists() else ():
            late = late or event.get("state") == "refused" or bool(event.get("refused"))
            if event["do"] == "take":
                taken += [(event["end"], each[0], release) for each in event["got"]]
    pushed = [(each.partition("-")[0], by) for _, each, by in taken]
    last: dict[str, str] = {}
    handed = set()
    for _, each, by in sorted(taken):
        handed.add((last.get(each), by))
        last[each] = by
    pairs = [("previous", "current"), ("current", "previous")]
    return late and all(pushed.count(pair) >= ENOUGH and pair in handed for pair in pairs)
