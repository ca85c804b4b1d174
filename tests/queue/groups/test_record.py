"""The record of a queue's settings."""

from datetime import timedelta

import pytest

from ackq import Groups, QueueConfig, RateLimit
from ackq.queue import record


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("2 left", QueueConfig(pop_from="left")),
        ("2 groups 1 0/0/0 continue 0 customer", QueueConfig(groups=Groups("customer"))),
        ("2 groups 1 0/0/0 stop 0 of", QueueConfig(groups=Groups("of", on_dead="stop"))),
        ("2 groups 9 0/0/0 continue 0 a:b", QueueConfig(groups=Groups("a:b", 9))),
        ("2 groups 1 0/0/0 continue 40 ", QueueConfig(max_in_flight=40)),
        (
            "2 groups 1 10/60000000/1 continue 0 customer",
            QueueConfig(groups=Groups("customer", rate=RateLimit(10, per=timedelta(minutes=1)))),
        ),
    ],
)
def test_settings_are_read_as_they_were_recorded(text: str, config: QueueConfig) -> None:
    assert record.text_of(config) == text
    assert record.text_of(QueueConfig(**record.settings_of(text))) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "left",
        "3 left",
        "2 groups",
        "2 other 1 0/0/0 continue 0 customer",
        "2 groups 0 0/0/0 continue 0 customer",
        "2 groups 1 0/0 continue 0 customer",
        "2 groups 1 0/0/0 pause 0 customer",
        "2 groups 1 0/0/0 continue 0 ",
    ],
)
def test_an_unknown_record_describes_no_settings(text: str) -> None:
    assert record.settings_of(text) == {}
