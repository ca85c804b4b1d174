"""What docs/tasks.md shows, works."""

from __future__ import annotations

import re
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from ackq.cli.work import work
from tests.examples import RunExamples, examples


class Kept(Transport):
    """Keeps what would be sent to Sentry."""

    def __init__(self, sent: list[Any], options: Any = None) -> None:
        super().__init__(options)
        self._sent = sent

    def capture_envelope(self, envelope: Envelope) -> None:
        self._sent += filter(None, (item.get_event() for item in envelope.items))


PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()


def test_options_that_the_page_names_exist() -> None:
    options = {name for parameter in work.params for name in parameter.opts}
    assert {*re.findall(r"(?<!\w)--[a-z][a-z-]+", PAGE)} - {"--strict", "--causes"} <= options


def test_the_examples_run_one_after_the_other(
    run_examples: RunExamples,
    plain_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(examples("docs/tasks.md")) >= 7
    sent: list[Any] = []
    settings: Any = {"dsn": "https://key@sentry.invalid/1", "transport": Kept(sent)}
    settings |= {"default_integrations": False, "auto_enabling_integrations": False}
    monkeypatch.setattr(sentry_sdk, "init", partial(sentry_sdk.init, **settings))
    module = types.ModuleType("images")
    monkeypatch.setitem(sys.modules, "images", module)
    try:
        run_examples("docs/tasks.md", scope=vars(module))
        sentry_sdk.flush()
        assert plain_client.xlen("images-mailDEAD") == 1
    finally:
        sentry_sdk.get_global_scope().set_client(None)
    (event,) = sent  # a verdict is no error
    assert event["exception"]["values"][-1]["type"] == "ZeroDivisionError"
    assert event["transaction"] == "shop.divide"
    assert event["contexts"]["message"]["delivery"] == 1
    shown = capsys.readouterr().out
    assert re.search(r"hello.*message_id.*=.*a-2.*task.*=.*shop\.log", shown)
    assert "Expected `int`, got `str` - at `$.width`" in shown
    assert "shop.pay 0.0" in shown
