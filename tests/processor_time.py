"""A plugin of pytest: the processor time of each test file, with all processes that it starts.

``.venv/bin/python -m pytest -n 2 --dist loadgroup -p tests.processor_time tests/cli`` shows those
that take most, and the tests that do.
"""

from collections import Counter
from collections.abc import Generator
from typing import Any

import psutil
import pytest

#: Files that are shown, and tests.
SHOWN = 30


class ProcessorTime:
    """What the tests, their servers and their children have used so far, in all test processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: Counter[str] = Counter()
        self._process = psutil.Process()
        self._last = self._total()

    def _total(self) -> float:
        found = 0.0
        for child in (self._process, *self._process.children(recursive=True)):
            try:
                used = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            found += used.user + used.system + used.children_user + used.children_system
        return found

    def pytest_runtestloop(self) -> None:
        self._last = self._total()  # without the collection

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        now = self._total()
        self._tests[item.nodeid] += max(0.0, now - self._last)  # type: ignore[assignment]
        self._last = now
        return result

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["processor_time"] = dict(self._tests)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._tests.update(getattr(node, "workeroutput", {}).get("processor_time", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: Counter[str] = Counter()
        for test, seconds in self._tests.items():
            files[test.partition("::")[0]] += seconds
        terminalreporter.section(f"processor time: {sum(files.values()):.1f} s")
        for counted in (files, self._tests):
            for name, seconds in counted.most_common(SHOWN):
                terminalreporter.line(f"{seconds:8.1f} s  {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessorTime(config))
