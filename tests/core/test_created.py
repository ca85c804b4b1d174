"""When a message was created: only what its body says in a known way counts."""

import pytest

from ackq.config import QueueConfig
from ackq.core.creation_time import created_at
from ackq.errors import ConfigurationError

#: 5 April 2018, 17:31:00 UTC.
TIME = 1522949460.0


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"2018-04-05T17:31:00Z"', TIME),
        ('"2018-04-05t17:31:00.250z"', TIME + 0.25),
        ('"2018-04-05 19:31:00+02:00"', TIME),
        ('"2018-04-05T17:31:00.123456789-00:00"', TIME + 0.123456),
        ("1522949460", TIME),
        ("1522949460.25", TIME + 0.25),
        ("1522949460250", TIME + 0.25),
        ("99999999999", 99999999999.0),
        ("100000000000", 100000000.0),
        ('"2018-04-05T17:31:00"', None),  # the zone may be any
        ('"2018-04-05"', None),
        ('"2018-W14-4T17:31:00Z"', None),
        ('"2018-02-30T17:31:00Z"', None),
        ('"\uff12018-04-05T17:31:00Z"', None),
        ('"1522949460"', None),
        ("1522949460250000", None),  # microseconds
        ("0", None),
        ("-1", None),
        ("true", None),
        ("null", None),
        ("[1522949460]", None),
        ("9" * 400, None),
    ],
)
def test_a_time_is_rfc_3339_or_seconds_or_milliseconds(written: str, expected: float) -> None:
    assert created_at(f'{{"made":{written}}}'.encode(), "made") == expected


@pytest.mark.parametrize(
    ("body", "field", "expected"),
    [
        (b'{"specversion":"1.0","time":"2018-04-05T17:31:00Z"}', None, TIME),
        (b'{"time":"2018-04-05T17:31:00Z"}', None, None),
        (b'{"specversion":"1.0","time":"2018-04-05T17:31:00Z"}', "made", TIME),
        (b'{"specversion":"1.0","time":1,"made":1522949460}', "made", TIME),
        (b'{"specversion":"1.0","time":1522949460,"made":"then"}', "made", TIME),
        (b'{"data":{"made":1522949460}}', "made", None),
        (b'{"made":1522949460}', None, None),
        (b'["made",1522949460]', "made", None),
        (b'"made"', "made", None),
        (b"", "made", None),
        (b"\xff", "made", None),
        (b"[" * 100_000, "made", None),
    ],
)
def test_other_bodies_have_no_time(body: bytes, field: str | None, expected: float | None) -> None:
    assert created_at(body, field) == expected


@pytest.mark.parametrize("field", ["", "id", "a b", 'a"', "\\", "ü", "x" * 101, 7, "a\n"])
def test_a_field_that_json_writes_in_several_ways_is_refused(field: str) -> None:
    with pytest.raises(ConfigurationError, match="time_field"):
        QueueConfig(time_field=field)
    assert QueueConfig(time_field="@time-stamp.$x:_1").time_field
