"""The processes that push and take during a run, any of which may be killed or frozen."""

import contextlib
import os
import random
import signal
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from tests.faults.children import end, start
from tests.waiting import wait_until

from .scenarios import Kind
from .site import Site
from .workloads import Workload
from .workloads.rig import Role, consume, produce


class Crew:
    """Producers and consumers of one workload."""

    def __init__(
        self,
        site: Site,
        workload: Workload,
        folder: Path,
        seed: int,
        sizes: Mapping[Kind, int],
        label: str = "",
        spared: int = 0,
    ) -> None:
        """Start all of them.

        Args:
            site: where they find Redis.
            workload: what they do.
            folder: of the run.
            seed: of what they draw.
            sizes: how many there are of each kind.
            label: begins their names, if there is another crew.
            spared: how many of each kind no nemesis kills.
        """
        self._label = label
        self._spared = spared
        self.site = site
        self._workload = workload
        self._history = folder / "history"
        self._stops = {kind: folder / f"stop.{kind}" for kind in sizes}
        self._seed = seed
        self._labels: list[str] = []
        self._members: dict[Kind, list[BaseProcess]] = {kind: [] for kind in sizes}
        for kind, size in sizes.items():
            for member in range(size):
                self._members[kind].append(self._hire(kind, member))
        # On a busy machine they take a while to begin.
        logs = [self._history / f"{label}.jsonl" for label in self._labels]
        wait_until(lambda: all(log.exists() for log in logs), "all processes to begin", 300)

    @property
    def spared(self) -> list[BaseProcess]:
        """The processes that no nemesis kills."""
        return [member for members in self._members.values() for member in members[: self._spared]]

    def kill(self, kind: Kind, draw: random.Random) -> None:
        """Kill a process, and start another in its place."""
        members = self._members[kind]
        victim = draw.randrange(self._spared, len(members))
        end(members[victim])
        members[victim] = self._hire(kind, victim)

    def kill_a_child(self, kind: Kind, draw: random.Random) -> bool:
        """Kill a child of a process of this kind; return False if there is none."""
        child = self._child(kind, draw)
        if child is not None:
            child.kill()
        return child is not None

    def freeze(self, kind: Kind, draw: random.Random) -> Callable[[], None]:
        """Stop a process in its tracks; return what lets it go on."""
        pid = draw.choice(self._members[kind]).pid
        assert pid is not None
        return _frozen(pid)

    def freeze_a_child(self, kind: Kind, draw: random.Random) -> Callable[[], None] | None:
        """Stop a child of a process of this kind; return what lets it go on."""
        child = self._child(kind, draw)
        return None if child is None else _frozen(child.pid)

    def _child(self, kind: Kind, draw: random.Random) -> psutil.Process | None:
        parents = [psutil.Process(member.pid) for member in self._members[kind]]
        children = [child for parent in parents for child in parent.children()]
        return draw.choice(children) if children else None

    def finish(self, kind: Kind) -> None:
        """Let the processes of a kind come to their end."""
        self._stops[kind].touch()
        for member in self._members[kind]:
            wait_until(lambda member=member: not member.is_alive(), f"a {kind} to end", 300)  # type: ignore[misc]
            assert member.exitcode == 0, f"a {kind} ended with {member.exitcode}"

    def close(self) -> None:
        """Kill all that still run."""
        for members in self._members.values():
            for member in members:
                end(member)

    def _hire(self, kind: Kind, member: int) -> BaseProcess:
        label = f"{self._label}{kind[0]}{len(self._labels) + 1}"
        self._labels.append(label)
        role = Role(
            self.site.of(member),
            self._workload,
            self._history,
            label,
            self._seed,
            self._stops[kind],
        )
        return start(consume if kind == "consumer" else produce, role)


def _frozen(pid: int) -> Callable[[], None]:
    """Stop a process in its tracks; return what lets it go on."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)

    def thaw() -> None:
        with contextlib.suppress(ProcessLookupError):  # killed meanwhile
            os.kill(pid, signal.SIGCONT)

    return thaw
