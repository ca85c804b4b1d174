"""The record of a queue's groups and limits."""

from datetime import timedelta

import pytest

from ackq import Groups, QueueConfig, RateLimit
from ackq.queue import group_record


@pytest.mark.parametrize(
    ("record", "config"),
    [
        ("groups:1:0/0/0:continue:0:customer", QueueConfig(groups=Groups("customer"))),
        ("groups:1:0/0/0:stop:0:of", QueueConfig(groups=Groups("of", on_dead="stop"))),
        ("groups:9:0/0/0:continue:0:a:b", QueueConfig(groups=Groups("a:b", 9))),
        ("groups:1:0/0/0:continue:40:", QueueConfig(max_in_flight=40)),
        (
            "groups:1:10/60000000/1:continue:0:customer",
            QueueConfig(groups=Groups("customer", rate=RateLimit(10, per=timedelta(minutes=1)))),
        ),
    ],
)
def test_settings_are_read_as_they_were_recorded(record: str, config: QueueConfig) -> None:
    assert group_record.record_of(config) == record
    settings = group_record.settings_of(record.encode())
    assert group_record.record_of(QueueConfig(**settings)) == record


@pytest.mark.parametrize(
    "record",
    [
        "",
        "left",
        "groups:1:customer",
        "groups:0:0/0/0:continue:0:customer",
        "groups:1:0/0/0:pause:0:customer",
        "groups:1:0/0/0:continue:0:",
    ],
)
def test_an_unknown_record_describes_no_settings(record: str) -> None:
    assert group_record.settings_of(record.encode()) == {}
