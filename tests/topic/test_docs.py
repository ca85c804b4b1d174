"""What docs/topic.md shows, works."""

from tests.examples import RunExamples, examples


def test_the_examples_run_one_after_the_other(run_examples: RunExamples) -> None:
    run_examples("docs/topic.md")["topic"].close()
    assert len(examples("docs/topic.md")) == 3
