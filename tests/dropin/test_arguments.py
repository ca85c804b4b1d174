"""How the drop-in reads the arguments of list commands: as redis-py and Redis do. No server."""

import math
from typing import Any

import pytest
import redis
from redis._parsers import Encoder
from redis.exceptions import DataError, ResponseError

from ackq.dropin import ListNameRefused, queues, reports
from ackq.dropin.arguments import count_of, name_of, names_of, timeout_of

UTF_8, LATIN = Encoder("utf-8", "strict", False), Encoder("latin-1", "strict", False)


def test_the_name_of_a_list_is_what_redis_py_sends() -> None:
    for key, name in (
        ("jobs", "jobs"),
        (b"jobs", "jobs"),
        (bytearray(b"a"), "a"),
        (7, "7"),
        (memoryview(b"a"), "a"),
        (1.5, "1.5"),
        ("ä", "ä"),
        (b"\xff", "\udcff"),
        (bytearray(b"\xff"), "\udcff"),
    ):
        assert name_of(key, UTF_8) == name
        assert names_of(key, UTF_8) == [name]
    assert name_of("ä", LATIN) == "\udce4"
    for wrong in (None, True, [], object()):
        with pytest.raises(DataError):
            name_of(wrong, UTF_8)  # type: ignore[arg-type]


def test_several_names_are_taken_once_and_in_their_order() -> None:
    assert names_of(["b", b"a", "b", 1], UTF_8) == ["b", "a", "1"]
    assert names_of(("ä",), UTF_8) == ["ä"]
    assert names_of(iter(["a"]), UTF_8) == ["a"]
    with pytest.raises(ResponseError, match=r"^wrong number of arguments .*: pass a key$"):
        names_of([], UTF_8)
    with pytest.raises(DataError):
        names_of(None, UTF_8)  # type: ignore[arg-type]


def _same_error(wrong: Any, read: Any) -> None:
    """The error is the one of redis-py, which names the type."""
    with pytest.raises(DataError) as ours:
        read(wrong)
    with pytest.raises(DataError) as theirs:
        UTF_8.encode(wrong)
    assert str(ours.value) == str(theirs.value)


def test_a_count() -> None:
    for count, number in ((0, 0), (5, 5), ("7", 7), (b"7", 7), (2**63 - 1, 2**63 - 1)):
        assert count_of(count) == number
    for wrong in (-1, 2**63, 1.0, "x", "", b"1.5", math.nan):
        with pytest.raises(ResponseError, match=r"^value is out of range, must be positive$"):
            count_of(wrong)
    for strange in (True, [5], object()):
        _same_error(strange, count_of)


def test_a_timeout() -> None:
    for timeout, seconds in (
        (None, math.inf),
        (0, math.inf),
        (0.0, math.inf),
        ("0", math.inf),
        (5, 5.0),
        (b"0.5", 0.5),
        ("5", 5.0),
    ):
        assert timeout_of(timeout) == seconds
    for wrong, text in (
        (-1, "timeout is negative"),
        (-math.inf, "timeout is negative"),
        (math.inf, "timeout is out of range"),
        ("inf", "timeout is out of range"),
        ("x", "timeout is not a float or out of range"),
        (math.nan, "timeout is not a float or out of range"),
    ):
        with pytest.raises(ResponseError, match=f"^{text}$"):
            timeout_of(wrong)
    for strange in (True, [5], object()):
        _same_error(strange, timeout_of)


def test_each_warning_is_given_once_for_a_list_and_not_without_end() -> None:
    given = reports.Reports()
    for text, name in (("{name} a {x}", "j"), ("{name} a {x}", "k"), ("{name} b {x}", "j")):
        with pytest.warns(reports.UnprotectedWarning) as caught:
            given.warn(text, name, x=5)
        (found,) = caught
        assert (str(found.message), found.filename) == (text.format(name=name, x=5), __file__)
        given.warn(text, name, x=5)
    given._given |= {("", f"{number}") for number in range(reports.MAX_WARNINGS - 4)}
    with pytest.warns(reports.UnprotectedWarning):
        given.warn("last", "j")
    given.warn("one too many", "j")


def test_so_many_lists_are_remembered_over_the_same_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queues, "MAX_QUEUES", 3)
    made = queues.Queues(redis.Redis(), {"visibility_timeout": 7.0})
    first = made.of("a", "right")
    left = made.of("a", "left")
    assert (left.config.pop_from, left.config.visibility_timeout) == ("left", 7.0)
    made.of("b", "right")
    assert made.of("a", "right") is first
    assert len(made._queues) == 3
    last = made.of("c", "right")
    assert list(made._queues) == [("c", "right")]
    assert made.of("a", "right") is not first
    assert last._driver is left._driver is first._driver
    with pytest.raises(ListNameRefused, match="choose another name"):
        made.of("", "right")
