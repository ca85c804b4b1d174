"""What docs/delay.md and docs/sharded.md show, works."""

import pytest

from tests.examples import RunExamples, examples


@pytest.mark.parametrize(
    ("page", "count", "text"),
    [("docs/delay.md", 4, "order-18"), ("docs/sharded.md", 3, "(0, 1, 2, 3)")],
)
def test_the_examples_run_one_after_the_other(
    run_examples: RunExamples, capsys: pytest.CaptureFixture[str], page: str, count: int, text: str
) -> None:
    with run_examples(page)["queue"] as queue:
        assert queue.stats().ready == 0
    assert len(examples(page)) == count
    assert text in capsys.readouterr().out
