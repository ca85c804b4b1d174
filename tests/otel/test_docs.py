"""What docs/tracing.md shows, works."""

import ackq.otel
from tests.examples import RunExamples, examples


def test_the_examples_run_in_their_order(run_examples: RunExamples) -> None:
    assert len(examples("docs/tracing.md")) == 3
    try:
        run_examples("docs/tracing.md")
    finally:
        ackq.otel.uninstrument()
