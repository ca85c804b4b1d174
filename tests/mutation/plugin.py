"""A plugin of pytest: record which statements a test runs, or run chosen tests on each mutant.

The file that ``ACKQ_MUTATION`` names says which. Results are appended to a file, a line each, so
that a run can be ended and continued at any time.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import re
import select
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from redis.sentinel import SentinelConnectionPool

from ackq.embedded import Server
from tests.conftest import GENERATED
from tests.servers import Client, Fleet

from . import children, scripts
from .places import ROOT, places

#: prctl(2): processes whose parents are gone become children of this one.
PR_SET_CHILD_SUBREAPER = 36


class Recorder:
    """Runs the tests once, and records the places that each runs, if it passes.

    Its seconds are without those in which the process waited for a processor.
    """

    def __init__(self, into: Path, places: Statements | Blocks) -> None:
        self._into = into
        self._places = places
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._places.begin(nodeid)
        self._tests[nodeid] = {"test": nodeid, "seconds": _waited(), "passed": True}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests[report.nodeid]
        test["seconds"] += report.duration
        test["passed"] &= report.passed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._places.end(nodeid)
        seconds = self._tests[nodeid]["seconds"] - _waited()
        self._tests[nodeid]["seconds"] = round(max(0.001, seconds), 3)

    def pytest_sessionfinish(self) -> None:
        found = self._places.found()
        with self._into.open("a") as into:
            for name, each in self._tests.items():
                if each.pop("passed"):
                    print(json.dumps(each | {"places": sorted(found[name])}), file=into)


def _waited() -> float:
    """Return the seconds for which the main thread has waited for a processor."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


class Statements:
    """The statements of ackq that tests run; of processes that they start, the functions."""

    def __init__(self) -> None:
        from coverage import Coverage  # only `make mutation` installs it

        self._coverage = Coverage(data_file=None, source=[str(ROOT / "ackq")])
        self._coverage.start()
        self._children = Path(tempfile.mkdtemp())
        self._tests: list[str] = []

    def begin(self, test: str) -> None:
        self._coverage.switch_context(test)
        children.record(self._children / str(len(self._tests)))
        self._tests.append(test)

    def end(self, test: str) -> None:
        """The next test begins."""

    def found(self) -> dict[str, set[str]]:
        """Return them by the test."""
        self._coverage.stop()
        found: defaultdict[str, set[str]] = defaultdict(set)
        data = self._coverage.get_data()
        for path in data.measured_files():
            if path.endswith(".py"):  # no template of the page
                place_of = places(Path(path))
                for line, contexts in data.contexts_by_lineno(path).items():
                    for test in contexts if line in place_of else ():
                        found[test].add(place_of[line])
        for number, test in enumerate(self._tests):
            found[test] |= children.recorded(self._children / str(number))
        return found


class Blocks:
    """The blocks of scripts that tests run: the servers of this process log them."""

    def __init__(self) -> None:
        self._names = scripts.mark()
        self._found: defaultdict[str, set[str]] = defaultdict(set)
        self._logs: dict[Path, int] = {}  # how much of each has been read
        start = Server.start

        def started(server: Server) -> None:
            self._logs.setdefault(server.directory / "redis.log", 0)
            start(server)

        Server.start = started  # type: ignore[assignment, method-assign]

    def begin(self, test: str) -> None:
        self._read()

    def end(self, test: str) -> None:
        self._found[test] |= {self._names[int(number)] for number in self._read()}

    def _read(self) -> set[bytes]:
        """Return what has been logged since the last call."""
        found = set()
        for path, read in self._logs.items():
            with contextlib.suppress(FileNotFoundError), path.open("rb") as log:
                log.seek(read)
                text = log.read()
                self._logs[path] += len(text)
                found |= set(re.findall(rb" # ~(\d+)\n", text))
        return found

    def found(self) -> dict[str, set[str]]:
        """Return them by the test."""
        return self._found


class Trier:
    """Tries each mutant in a process of its own, forked when the tests are collected."""

    def __init__(self, plan: list[dict[str, Any]], about: dict[str, Any], into: Path) -> None:
        self._plan = plan
        self._about = about
        self._into = into.open("a")
        self._failed: str | None = None
        self._fleet: Fleet | None = None

    @pytest.fixture(autouse=True, scope="session")
    def _keep_the_fleet(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            test = item.nodeid.partition("[")[0]
            for name in {item.nodeid, test, test.partition("::")[0]}:
                items.setdefault(name, []).append(item)
        anchor = next(item for item in session.items if item.path.name == "anchor.py")
        # As the next test it keeps what serves the session, and nothing else.
        other = next(item for item in session.items if item.path.parent != anchor.path.parent)
        _run(anchor, other)
        assert self._failed is None, "the server did not start"
        assert threading.active_count() == 1, "a thread does not survive a fork"
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        servers = psutil.Process().children()
        self._clear(servers)
        scripts.prepare()
        for mutant in self._plan:
            begin = time.monotonic()
            named = (item for test in mutant["tests"] for item in items.get(test, []))
            tests = list(dict.fromkeys(named))
            while (found := self._try(mutant, tests, anchor, servers)) is not None:
                suspects = items.get(found, tests)
                if self._is_due_to(mutant, found, suspects, anchor, servers):
                    break
                print(
                    f"{found}: so, too, without the mutant, or only once",
                    file=sys.__stdout__,
                    flush=True,
                )
                tests = [test for test in tests if test not in suspects]
            seconds = round(time.monotonic() - begin, 2)
            line = {"key": mutant["key"], "by": found, "seconds": seconds, **self._about}
            print(json.dumps(line), file=self._into, flush=True)
            print(
                f"{seconds:6.1f} s  {found or '*** survived ***'}  {mutant['key']}",
                file=sys.__stdout__,
                flush=True,
            )
        session._setupstate.teardown_exact(None)
        return True

    def _is_due_to(
        self,
        mutant: dict[str, Any],
        found: str,
        tests: list[pytest.Item],
        anchor: pytest.Item,
        servers: list[psutil.Process],
    ) -> bool:
        """Return whether these tests end otherwise without the mutant, and fail with it again."""
        without = self._try({**mutant, "code": mutant["sound"]}, tests, anchor, servers)
        if len(tests) > 1:  # a process that did not end, or died: this once is enough
            return without != found
        return without is None and self._try(mutant, tests, anchor, servers) is not None

    def _try(
        self,
        mutant: dict[str, Any],
        tests: list[pytest.Item],
        anchor: pytest.Item,
        servers: list[psutil.Process],
    ) -> str | None:
        """Return the test that notices the mutant, or how else its process ended; or None."""
        try:
            return self._ended(mutant, tests, anchor)
        finally:
            self._clear(servers)

    def _ended(
        self, mutant: dict[str, Any], tests: list[pytest.Item], anchor: pytest.Item
    ) -> str | None:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            self._in_the_child(mutant, tests, anchor, writer)
        os.close(writer)
        poll = select.poll()
        handle = os.pidfd_open(child)
        poll.register(handle, select.POLLIN)
        late = not poll.poll(1000 * mutant["limit"])
        os.close(handle)
        if late:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.set_blocking(reader, False)  # processes that the child left behind have the other end
        with os.fdopen(reader, "rb") as told:
            noticed = (told.read() or b"").decode()
        if noticed or late:
            return noticed or "the tests did not end in time"
        return None if not status else f"the process ended with {os.waitstatus_to_exitcode(status)}"

    def _in_the_child(
        self,
        mutant: dict[str, Any],
        tests: list[pytest.Item],
        anchor: pytest.Item,
        writer: int,
    ) -> None:
        status = 3
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            for function, code in mutant["code"].items():
                (scripts if function.startswith("lua/") else children).plant(function, code)
            if not mutant["sound"]:  # no script, which processes that tests start load themselves
                children.plant_in_children(mutant["code"])
            for test, following in itertools.pairwise([*tests, anchor]):
                _run(test, following)
                if self._failed is not None:
                    os.write(writer, self._failed.encode())
                    test.session._setupstate.teardown_exact(anchor)
                    break
            status = 0
        finally:
            os._exit(status)

    def _clear(self, servers: list[psutil.Process]) -> None:
        """End what the mutant's process has left behind, and empty the run's own servers.

        No connection stays open: in the next process, garbage collection would warn of it.
        """
        for process in psutil.Process().children(recursive=True):
            if process not in servers:
                process.kill()
                process.wait()
        assert self._fleet is not None
        for target in self._fleet._started.values():
            target.control.flushall()
            for pool in _pools(target.control):
                pool.disconnect()


def _pools(client: Client) -> Iterator[redis.ConnectionPool]:
    """Yield what keeps the connections of a client."""
    if isinstance(client, redis.RedisCluster):
        yield from (
            node.redis_connection.connection_pool
            for node in client.get_nodes()
            if node.redis_connection
        )
        return
    yield client.connection_pool
    if isinstance(client.connection_pool, SentinelConnectionPool):
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            yield sentinel.connection_pool


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Leave out generated twins, and what needs a JVM: it is slow, and does not survive a fork."""
    items[:] = [
        item
        for item in items
        if "spark" not in getattr(item, "fixturenames", ())
        and not (_runs_blocking(item) and item.module.__name__.startswith(GENERATED))
    ]


def _runs_blocking(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and item.callspec.params.get("flavour") == "sync"


def pytest_configure(config: pytest.Config) -> None:
    order = json.loads(Path(os.environ["ACKQ_MUTATION"]).read_text())
    into = Path(order["into"])
    if "plan" in order:
        plugin: Trier | Recorder = Trier(order["plan"], order["about"], into)
    else:
        plugin = Recorder(into, Blocks() if order["of"] == "lua" else Statements())
    config.pluginmanager.register(plugin, "mutation")
