"""Arguments of many types, as JSON and back. Needs no server."""

from __future__ import annotations

import enum
import ipaddress
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from msgspec.structs import asdict

from ackq import Message
from ackq.errors import ConfigurationError, InvalidArguments
from ackq.tasks import State, injected
from ackq.tasks.arguments import Arguments


class Colour(enum.Enum):
    RED = "red"


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(alias="Street", max_length=5)
    since: datetime | None = None


class Size(msgspec.Struct):
    width: int


@dataclass
class Picture:
    path: Path
    raw: bytes
    size: Size
    owner: Address
    tags: list[str] = field(default_factory=list)


class Options(TypedDict):
    raw: bytes
    price: NotRequired[Decimal]


class Point(NamedTuple):
    x: int
    y: float


HOME = Address(Street="here", since=datetime(2026, 1, 2, tzinfo=UTC))
VALUES: list[tuple[Any, Any]] = [
    (str, "ü\n\0"),
    (int, 2**80),
    (float, 1.5),
    (bool, True),
    (bytes, b"\xff\xfe"),
    (datetime, datetime(2026, 5, 4, 3, 2, 1, 5, tzinfo=UTC)),
    (date, date(2026, 5, 4)),
    (timedelta, timedelta(days=2, microseconds=5)),
    (UUID, UUID(int=5)),
    (Decimal, Decimal("1.50")),
    (Colour, Colour.RED),
    (Literal["a", "b"], "b"),
    (Path, Path("/tmp/a")),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    (list[int], [1, 2]),
    (tuple[int, ...], (1, 2)),
    (set[str], {"a"}),
    (dict[str, Decimal], {"a": Decimal("0.10")}),
    (int | None, None),
    (Options, {"raw": b"\xff", "price": Decimal("2.0")}),
    (Point, Point(1, 2.5)),
    (Size, Size(5)),
    (Address, HOME),
    (list[Address | None], [HOME, None]),
    (Picture, Picture(Path("a"), b"\x00", Size(1), HOME, ["t"])),
    (Annotated[int, msgspec.Meta(gt=0)], 5),
    (Any, {"any": [1, "x", None]}),
]


def _of(kind: Any) -> Arguments:
    def function(value: Any) -> None:
        """A task."""

    function.__annotations__ = {"value": kind}
    return Arguments("t", function)


def test_an_integer_may_be_pushed_for_a_float() -> None:
    read = _of(float).decode(_of(float).encode((1,), {})).value
    assert (read, type(read)) == (1.0, float)


def test_bytes_are_the_usual_base64_so_that_other_languages_read_them() -> None:
    assert _of(bytes).encode((b"\xff\xfe\xfd",), {}) == b'{"value":"//79"}'


WRONG: list[tuple[Any, Any, str]] = [
    (str, 5, "Expected `str`, got `int` - at `$.value`"),
    (int, "5", "Expected `int`, got `str` - at `$.value`"),
    (int, True, "Expected `int`, got `bool` - at `$.value`"),
    (int, 5.5, "Expected `int`, got `float` - at `$.value`"),
    (Colour, "blue", "Invalid enum value 'blue' - at `$.value`"),
    (UUID, "secret", "Invalid UUID - at `$.value`"),
    (list[int], [1, "x"], "Expected `int`, got `str` - at `$.value[1]`"),
    (Address, {"Street": "too long"}, "String should have at most 5 characters - at `Street`"),
    (Address, {}, "Field required - at `Street` of Address - at `$.value`"),
    (Options, {}, "Missing the argument `raw` - at `$.value`"),
    (Path, 5, "Expected `str`, got `int` - at `$.value`"),
    (ipaddress.IPv4Address, "secret", "Expected a valid IPv4Address - at `$.value`"),
    (Annotated[int, msgspec.Meta(gt=0)], 0, "Expected `int` >= 1 - at `$.value`"),
    (Any, object(), "a value of type object has no form in JSON"),
    (Any, math.nan, "is nan, and JSON has no such number"),
    (dict[str, float], {"x": math.inf}, "is inf, and JSON has no such number"),
]


def test_values_of_other_types_are_refused_by_their_path_and_are_not_shown() -> None:
    for kind, value, text in WRONG:
        with pytest.raises(InvalidArguments) as raised:
            _of(kind).encode((value,), {})
        assert text in str(raised.value)
        assert "secret" not in str(raised.value)
        assert raised.value.task == "t"


def _function(a: int, b: str = "b", *, c: list[int] = [3], d: Any = None) -> None:  # noqa: B006
    """A task."""


def test_calls_of_another_shape_are_refused() -> None:
    arguments = Arguments("t", _function)
    assert asdict(arguments.decode(arguments.encode((1,), {}))) == {
        "a": 1,
        "b": "b",
        "c": [3],
        "d": None,
    }
    assert arguments.encode((1, "x"), {"c": []}) == b'{"a":1,"b":"x","c":[]}'
    for args, kwargs, text in (
        ((), {}, "Missing the argument `a`"),
        ((1, "b", []), {}, "takes 2 arguments by position, not 3"),
        ((1,), {"a": 2}, "'a' is given twice"),
        ((1,), {"e": 2}, "There is no argument `e`"),
    ):
        with pytest.raises(InvalidArguments, match=text):
            arguments.encode(args, kwargs)


class Unknown:
    """No message can hold it."""


@dataclass
class Holder:
    unknown: Unknown
    more: list[Holder]


@pydantic.dataclasses.dataclass
class Checked:
    text: str


def test_signatures_that_would_not_be_checked_are_refused() -> None:
    for kind, text in (
        (Unknown, "'value' is or contains Unknown, which cannot be read from JSON"),
        (list[Unknown | None], "contains Unknown"),
        (Holder, "contains Unknown"),
        (Checked, "contains Checked"),
        (dict[str, Callable[[], None]], "contains Callable"),
        (Annotated[int, pydantic.Field(gt=0)], "would not be checked: write msgspec.Meta"),
        (Picture | Size, "more than one"),
        ("Nowhere", "cannot be resolved"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            _of(kind).check()


def test_annotations_may_name_what_is_defined_later() -> None:
    def later(value: Later) -> None:
        """A task."""

    arguments = Arguments("t", later)
    assert asdict(arguments.decode(arguments.encode((Later(1),), {}))) == {"value": Later(1)}


@dataclass
class Later:
    n: int


def test_parameters_that_a_worker_fills_in_are_no_arguments() -> None:
    def function(
        a: int, message: Message = injected, pool: State[dict[str, int]] = injected
    ) -> None:
        """A task."""

    arguments = Arguments("t", function)
    assert arguments.injected == {"message", "pool"}
    assert arguments.state_types == {"pool": dict[str, int]}
    assert arguments.encode((1,), {}) == b'{"a":1}'
    assert repr(injected) == "injected"
