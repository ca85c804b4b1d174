"""A plugin of pytest: the processor time of each test file, with all processes that it starts.

``.venv/bin/python -m pytest -n 0 -p tests.processor_time tests/cli`` shows those that take most.
"""

from collections import Counter
from collections.abc import Generator

import psutil
import pytest

#: Files that are shown.
SHOWN = 30


class ProcessorTime:
    """What the tests, their servers and their children have used so far."""

    def __init__(self) -> None:
        self._files: Counter[str] = Counter()
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
        self._files[item.nodeid.partition("::")[0]] += max(0.0, now - self._last)  # type: ignore[assignment]
        self._last = now
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor time")
        for file, seconds in self._files.most_common(SHOWN):
            terminalreporter.line(f"{seconds:8.1f} s  {file}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessorTime())
