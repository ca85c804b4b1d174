"""Where OpenTelemetry is not installed, not switched on, or only its API is there."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

import ackq.otel
from ackq import Queue
from ackq.core import observation
from ackq.core.operation_marks import OBSERVED
from ackq.errors import ConfigurationError
from tests.otel.conftest import Connect, Recorded
from tests.process.commands import working
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def with_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes of these tests find it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def python(code: str) -> str:
    """Run ``code`` in a process where nothing of OpenTelemetry can be imported."""
    block = "import sys; sys.modules['opentelemetry'] = None\n"
    return subprocess.run(
        [sys.executable, "-c", block + code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def test_ackq_works_without_opentelemetry_and_says_what_ackq_otel_needs() -> None:
    output = python(
        "import ackq.worker, ackq.cli\n"
        "try:\n    import ackq.otel\nexcept ackq.AckqError as error:\n    print(error)\n"
    )
    assert output == "ackq.otel needs opentelemetry-api: pip install 'ackq[otel]'\n"


def test_ackq_otel_is_not_imported_before_it_is_asked_for() -> None:
    # redis-py imports the API of OpenTelemetry for itself.
    code = "import ackq.worker, ackq.cli, sys; print('ackq.otel' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert output == "False\n"


def test_nothing_is_recorded_or_added_after_the_end(
    recorded: Recorded, connect: Connect, name: str
) -> None:
    queue = connect(Queue, name)
    ackq.otel.uninstrument()
    assert observation.observer is None
    queue.push({"id": "a-1"})
    assert queue.pop().body == b'{"id":"a-1"}'
    assert recorded.spans() == []


def test_with_the_api_alone_messages_are_not_changed(connect: Connect, name: str) -> None:
    ackq.otel.instrument()
    try:
        queue = connect(Queue, name)
        queue.push({"id": "a-1"})
        message = queue.pop()
        assert message.body == b'{"id":"a-1"}'
        with ackq.otel.processing(message):
            queue.ack(message)
    finally:
        ackq.otel.uninstrument()


@pytest.mark.parametrize("product", ["queue", "delay", "topic", "rsmq"])
def test_every_operation_that_clients_pass_to_the_observer_is_known_to_it(product: str) -> None:
    importlib.import_module(f"ackq.{product}")
    known = {
        f"{operation.__module__.rpartition('.')[2]}.{operation.__name__}"
        for operation in OBSERVED
        if operation.__module__.startswith(f"ackq.{product}.")
    }
    clients = (ROOT / "ackq" / product).glob("*client_async.py")
    passed = {
        found
        for client in clients
        for found in re.findall(r"_perform\(\s*(\w+\.\w+)", client.read_text())
    }
    assert passed == known, "an operation that `_perform` runs begins with @observed(...)"


def test_an_unknown_relation_is_refused() -> None:
    wrong: Any = "sibling"
    with pytest.raises(ConfigurationError, match="'link' or 'parent'"):
        ackq.otel.instrument(relation=wrong)
    assert observation.observer is None


HANDLER = """
import os
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
import ackq.otel

provider = TracerProvider()
journal = open(os.environ["JOURNAL"], "a")
to_line = lambda span: span.to_json(indent=None) + "\\n"
exporter = ConsoleSpanExporter(out=journal, formatter=to_line)
provider.add_span_processor(BatchSpanProcessor(exporter))
ackq.otel.instrument(tracer_provider=provider)

def handle(message):
    pass
"""


def test_worker_processes_record_their_handlers_and_write_all_spans_before_they_end(
    plain_client: redis.Redis, url: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "tracedhandler.py").write_text(HANDLER)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    plain_client.lpush(name, *(json.dumps({"n": n, "traceparent": parent}) for n in range(4)))
    options = ("-q", name, "--processes", "2", "--drain")
    queue = Queue(plain_client, name)
    with working(tmp_path, url, "tracedhandler:handle", *options, cwd=tmp_path) as command:
        assert command.wait(50) == 0, command.log()
    wait_until(lambda: queue.stats().in_flight == 0, "all are acked")
    queue.close()
    spans = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    handled = [span for span in spans if span["name"] == f"process {name}"]
    assert len(handled) == 4
    assert {span["links"][0]["context"]["span_id"] for span in handled} == {"0xb7ad6b7169203331"}
