"""A command line on the suite's plain server."""

import signal
from collections.abc import Callable, Iterator

import click.testing
import pytest

from ackq.cli import main

Run = Callable[..., click.testing.Result]


@pytest.fixture
def ackq(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """``ackq("pop", name, code=1)``: run a command, check its exit code, return the result."""
    monkeypatch.setenv("ACKQ_REDIS_URL", url)
    runner = click.testing.CliRunner()

    def run(*args: str, code: int = 0, input: str | bytes | None = None) -> click.testing.Result:
        result = runner.invoke(main, args, input=input, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    # Commands that run until they are stopped handle signals to the end of their process.
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    yield run
    for number, handler in before.items():
        signal.signal(number, handler)
