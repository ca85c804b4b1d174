"""What docs/worker.md shows, works."""

import re
from pathlib import Path

import pytest

from ackq.cli.work import work
from ackq.cli.workers import workers
from tests.examples import RunExamples, examples

PAGE = (Path(__file__).parents[2] / "docs" / "worker.md").read_text()
EXAMPLES = examples("docs/worker.md")


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(run_examples: RunExamples, number: int) -> None:
    run_examples("docs/worker.md", only=number)


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) >= 8


def test_options_that_the_page_names_exist() -> None:
    commands = [work, workers, *workers.commands.values()]
    options = {name for each in commands for parameter in each.params for name in parameter.opts}
    shown = set(re.findall(r"(?<![\w`'])(--[a-z][a-z-]+)", PAGE)) | set(
        re.findall(r"`(--[a-z][a-z-]+)", PAGE)
    )
    assert shown - {"--help"} <= options
