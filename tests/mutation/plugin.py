"""A plugin of pytest: record which functions a test calls, or run chosen tests on each mutant.

The file that ``ACKQ_MUTATION`` names says which. Results are appended to a file, a line each, so
that a run can be ended and continued at any time.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

from tests.servers import Fleet

#: prctl(2): processes whose parents are gone become children of this one.
PR_SET_CHILD_SUBREAPER = 36


class Recorder:
    """Runs the tests once, and records the functions that each calls, and whether it passed."""

    def __init__(self, into: Path) -> None:
        self._into = into.open("a")
        self._failed = False
        set_mutant_under_test("stats")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        state()._stats.clear()
        self._failed = False
        begin = time.monotonic()
        result = yield
        test = {
            "test": item.nodeid,
            "seconds": round(time.monotonic() - begin, 3),
            "functions": [] if self._failed else sorted(state()._stats),
        }
        print(json.dumps(test), file=self._into, flush=True)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= not report.passed


class Trier:
    """Tries each mutant in a process of its own, forked when the tests are collected."""

    def __init__(self, plan: list[dict[str, Any]], into: Path) -> None:
        self._plan = plan
        self._into = into.open("a")
        self._failed: str | None = None
        self._fleet: Fleet | None = None
        set_mutant_under_test("")

    @pytest.fixture(autouse=True, scope="session")
    def _keep_the_fleet(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        anchor = next(item for item in session.items if item.path.name == "anchor.py")
        # As the next test it keeps what serves the session, and nothing else.
        other = next(item for item in session.items if item.path.parent != anchor.path.parent)
        _run(anchor, other)
        assert self._failed is None, "the server did not start"
        assert threading.active_count() == 1, "a thread does not survive a fork"
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        servers = psutil.Process().children()
        for mutant in self._plan:
            tests = [items[test] for test in mutant["tests"] if test in items]
            begin = time.monotonic()
            found = self._try(mutant["name"], tests, anchor, mutant["limit"])
            self._clear(servers)
            seconds = round(time.monotonic() - begin, 2)
            line = {"key": mutant["key"], "by": found, "seconds": seconds}
            print(json.dumps(line), file=self._into, flush=True)
            print(f"{seconds:6.1f} s  {found or '*** survived ***'}  {mutant['key']}",
                  file=sys.__stdout__, flush=True)  # fmt: skip
        _run(anchor, None)
        return True

    def _try(
        self, name: str, tests: list[pytest.Item], anchor: pytest.Item, limit: float
    ) -> str | None:
        """Return the test that notices the mutant, or how else its process ended; or None."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            self._in_the_child(name, tests, anchor, writer)
        os.close(writer)
        poll = select.poll()
        handle = os.pidfd_open(child)
        poll.register(handle, select.POLLIN)
        late = not poll.poll(limit * 1000)
        os.close(handle)
        if late:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reader) as told:
            noticed = told.read()
        if late:
            return "no test ended in time"
        if noticed:
            return noticed
        return None if not status else f"the process ended with {os.waitstatus_to_exitcode(status)}"

    def _in_the_child(
        self, name: str, tests: list[pytest.Item], anchor: pytest.Item, writer: int
    ) -> None:
        status = 3
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            set_mutant_under_test(name)
            for test, following in zip(tests, [*tests[1:], anchor], strict=True):
                _run(test, following)
                if self._failed is not None:
                    os.write(writer, self._failed.encode())
                    test.session._setupstate.teardown_exact(anchor)
                    break
            status = 0
        finally:
            os._exit(status)

    def _clear(self, servers: list[psutil.Process]) -> None:
        """End what the mutant's process has left behind, and empty the run's own server."""
        for process in psutil.Process().children(recursive=True):
            if process not in servers:
                process.kill()
                process.wait()
        assert self._fleet is not None
        for target in self._fleet._started.values():
            target.control.flushall()


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a JVM: it takes long to start, and does not survive a fork."""
    items[:] = [item for item in items if "spark" not in getattr(item, "fixturenames", ())]


def pytest_configure(config: pytest.Config) -> None:
    order = json.loads(Path(os.environ["ACKQ_MUTATION"]).read_text())
    into = Path(order["into"])
    plugin = Trier(order["plan"], into) if "plan" in order else Recorder(into)
    config.pluginmanager.register(plugin, "mutation")
