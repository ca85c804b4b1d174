"""The options in docs/spark.md and docs/spark-sink.md. Their examples run in tests/first_hour."""

import re
from pathlib import Path

from ackq.spark.options import _PEEK, _STREAM, PARSING, QUEUES, TARGET, TARGET_COLUMNS
from ackq.spark.sink_options import _SINK

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text()
SINK_PAGE = (ROOT / "docs" / "spark-sink.md").read_text()


def test_every_option_is_documented() -> None:
    table = PAGE.partition("## Options")[2]
    named = set(re.findall(r"`(\w+)`", table))
    assert {*TARGET, QUEUES, *PARSING, *_PEEK, *_STREAM} - named <= {"path"}
    table = SINK_PAGE.partition("## Options")[2]
    assert {*TARGET, *TARGET_COLUMNS, *_SINK} - set(re.findall(r"`(\w+)`", table)) <= {"path"}
