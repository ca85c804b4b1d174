"""A command line on the suite's plain server."""

from collections.abc import Callable

import click.testing
import pytest

from ackq.cli import main

Run = Callable[..., click.testing.Result]


@pytest.fixture
def ackq(url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``ackq("pop", name, code=1)``: run a command, check its exit code, return the result."""
    monkeypatch.setenv("ACKQ_REDIS_URL", url)
    runner = click.testing.CliRunner()

    def run(*args: str, code: int = 0, input: str | bytes | None = None) -> click.testing.Result:
        result = runner.invoke(main, args, input=input, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run
