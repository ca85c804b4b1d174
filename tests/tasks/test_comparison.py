"""What push accepts arrives equal, in value and type; the rest it refuses by its path."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import orjson
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ackq.errors import ConfigurationError, InvalidArguments
from ackq.tasks import AsyncTasks, Tasks
from ackq.tasks.arguments import Arguments
from ackq.tasks.comparison import MAX_DEPTH
from tests.tasks.test_arguments import VALUES, _of


class Word(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Animal(pydantic.BaseModel):
    name: str


class Dog(Animal):
    tricks: int = 0


class Lossy(pydantic.BaseModel):
    price: Decimal

    @pydantic.field_serializer("price")
    def rounded(self, price: Decimal) -> str:
        return f"{price:.1f}"


class Secret(pydantic.BaseModel):
    key: pydantic.SecretStr


class Hidden(pydantic.BaseModel):
    _cache: int = pydantic.PrivateAttr(default=0)
    text: str = ""
    local: int = pydantic.Field(default=0, exclude=True)


class Aliased(pydantic.BaseModel):
    size: int = pydantic.Field(default=5, serialization_alias="Size")


class Open(pydantic.BaseModel, extra="allow"):
    text: str
    any: Any = None


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"


class Cow(pydantic.BaseModel):
    kind: Literal["cow"] = "cow"


class Pet(pydantic.BaseModel):
    of: Cat | Cow = pydantic.Field(discriminator="kind")


@dataclass
class Base:
    n: int
    tags: list[str] = field(default_factory=list)


@dataclass
class Derived(Base):
    more: int = 0


@dataclass
class Made:
    """It changes what it is given."""

    n: float

    def __post_init__(self) -> None:
        self.n = abs(self.n) + 1


class First(msgspec.Struct, tag=True):
    n: int


class Second(msgspec.Struct, tag=True):
    n: int


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict, total=False):
    width: int


def _hidden(cache: int) -> Hidden:
    hidden = Hidden()
    hidden._cache = cache
    return hidden


BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 5, 4, 12)
DEEPEST: Any = 0
for _ in range(MAX_DEPTH):
    DEEPEST = [DEEPEST]

ARRIVE: list[tuple[Any, Any]] = [
    (float, -0.0),
    (Any, -0.0),
    (Any, {"": [1, True, None, 1.0, "x", 1e300, -(2**70)]}),
    (list, [[], {}, [[1.5]]]),
    (dict, {"a": {"b": None}}),
    (dict[int, str], {1: "a"}),
    (dict[UUID, list[date]], {UUID(int=1): [date(2026, 1, 2)]}),
    (datetime, NOON),
    (datetime, NOON.replace(tzinfo=timezone(timedelta(hours=-2)))),
    (datetime, NOON.replace(tzinfo=ZoneInfo("UTC"))),
    (datetime, Open.model_validate_json('{"text": "", "any": 0}') and NOON.replace(tzinfo=UTC)),
    (time, time(1, 2, tzinfo=UTC)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (Decimal, Decimal("-0.00")),
    (Decimal, Decimal("NaN")),
    (int, 10**400),
    (frozenset[int], frozenset({1, 2})),
    (set[tuple[int, str]], {(1, "a")}),
    (Word | int, Word.RED),
    (dict[Word, int], {Word.RED: 1}),
    (Level, Level.LOW),
    (Point, Point(1, 2)),
    (Sequence[int], [1]),
    (Mapping[str, int], {"a": 1}),
    (First | Second, Second(1)),
    (Pet, Pet(of=Cow())),
    (Open, Open(text="a", more=[1])),  # type: ignore[call-arg]
    (Hidden, Hidden(text="a")),
    (list[Derived], [Derived(1, ["a"], 2)]),
    (Options, {}),
    (Any, DEEPEST),
]

#: A type, a value of another one or one that changes, and the path and the reason.
REFUSED: list[tuple[Any, Any, str]] = [
    (str, b"x", r"\$\.value is of type bytes, and arrives as str"),
    (str, UUID(int=1), r"\$\.value is of type UUID, and arrives as str"),
    (str, Word.RED, r"\$\.value is of type Word, and arrives as str"),
    (int, Level.LOW, "is of type Level, and arrives as int"),
    (Word, "red", "is of type str, and arrives as Word"),
    (datetime, "2026-05-04T12:00:00", "is of type str, and arrives as datetime"),
    (float, 2**53 + 1, "is of type int, and arrives as float"),
    (Any, [1, {"when": NOON}], r"\$\.value\[1\]\.when is of type datetime, and arrives as str"),
    (Any, UUID(int=1), "UUID"),
    (Any, Decimal(1), "Decimal"),
    (Any, (1, 2), "is of type tuple, and arrives as list"),
    (Any, {1, 2}, "set"),
    (Any, {1: 2}, r"\$\.value\[1\] has a name of type int"),
    (Any, {Word.RED: 2}, r"\$\.value\.red has a name of type Word"),
    (Any, OrderedDict(a=1), "OrderedDict"),
    (dict, defaultdict(int, a=1), "defaultdict"),
    (dict, {"a": {"b": b"x"}}, r"\$\.value\.a\.b is of type bytes"),
    (list, [(1,)], r"\$\.value\[0\] is of type tuple"),
    (list, [Word.RED], r"\$\.value\[0\] is of type Word"),
    (list[str], (("a"),), "is of type tuple, and arrives as list"),
    (Sequence[int], (1, 2), "is of type tuple"),
    (tuple[int, int], Point(1, 2), "is of type Point, and arrives as tuple"),
    (frozenset[int], {1}, "is of type set, and arrives as frozenset"),
    (set[str], {Word.RED}, r"\$\.value is of type Word"),
    (Any, Base(1), "is of type Base, and arrives as dict"),
    (Any, Animal(name="a"), "is of type Animal, and arrives as dict"),
    (Animal, Dog(name="a"), r"\$\.value is of type Dog, and arrives as Animal"),
    (list[Base], [Base(0), Derived(1)], r"\$\.value\[1\] is of type Derived, and arrives as Base"),
    (Lossy, Lossy(price=Decimal("0.25")), r"\$\.value\.price arrives with another value"),
    (list[Secret], [Secret(key="s")], r"\$\.value\[0\]\.key arrives with another value"),  # type: ignore[arg-type]
    (Hidden, Hidden(local=1), r"\$\.value\.local arrives with another"),
    (Hidden, _hidden(1), r"\$\.value\.__pydantic_private__\._cache arrives with another"),
    (Aliased, Aliased(size=7), r"\$\.value\.size arrives with another value"),
    (Open, Open(text="a", any=NOON), r"\$\.value\.any is of type datetime, and arrives as str"),
    (Open, Open(text="a", more=(1,)), r"more is of type tuple"),  # type: ignore[call-arg]
    (Made, Made(1.0), r"\$\.value\.n arrives with another value"),
    (Options, {"width": 1, "more": 2}, r"\$\.value\.more does not arrive"),
    (datetime, NOON.replace(tzinfo=BERLIN), r"has the zone Europe/Berlin, .*astimezone\(UTC\)"),
    (datetime, datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), "has the zone"),
    (time, time(1, tzinfo=BERLIN), "has the zone|JSON"),
    (Any, [DEEPEST], f"nested too deeply: at most {MAX_DEPTH} levels"),
    (float, math.nan, "is nan"),
    (datetime, datetime(2026, 10, 25, 2, 30, fold=1), "the second of two equal local times"),
    (list[time], [time(2, 30, fold=1)], r"\$\.value\[0\] is the second of two"),
    (dict[Word, int], {"red": 1}, r"\$\.value\.red has a name of type str"),
    (set, [[1]], "unhashable type: 'list'"),
]


@pytest.mark.parametrize(("kind", "value"), [*VALUES, *ARRIVE])
def test_what_is_accepted_arrives_equal_and_of_the_same_type(kind: Any, value: Any) -> None:
    arguments = _of(kind)
    written = arguments.encode((value,), {})
    read = arguments.decode(written).value
    assert type(read) is type(value)
    assert repr(read) == repr(value) or read == value


@pytest.mark.parametrize(("kind", "value", "text"), REFUSED)
def test_what_would_change_is_refused_by_its_path(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(InvalidArguments, match=text) as caught:
        _of(kind).encode((value,), {})
    assert "secret" not in str(caught.value)


def test_an_integer_that_no_reader_of_text_takes_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="digits"):
        _of(int).encode((10**5000,), {})


def test_lists_and_objects_that_contain_themselves_are_refused() -> None:
    endless: list[Any] = []
    endless.append({"again": endless})
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        _of(Any).encode((endless,), {})


_ANY = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**70), 2**70)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text()
    | some.binary()
    | some.sampled_from([NOON, Word.RED, Level.LOW, Decimal("1.0"), UUID(int=3)]),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.tuples(inner)
        | some.dictionaries(some.text() | some.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(_ANY)
def test_any_value_is_refused_or_arrives_as_it_was(value: Any) -> None:
    arguments = _of(Any)
    try:
        written = arguments.encode((value,), {})
    except InvalidArguments:
        assert repr(_json(value)) != repr(value)
    else:
        assert repr(arguments.decode(written).value) == repr(value)


def _json(value: Any) -> Any:
    """Return a value as a reader of JSON gets it; None if there is no JSON of it."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError):
        return None


UNIONS: list[Any] = [str | datetime, str | bytes, Cat | Cow, Animal | int, Base | Made]


@pytest.mark.parametrize("kind", UNIONS, ids=str)
@pytest.mark.parametrize("tasks", [Tasks, AsyncTasks])
def test_unions_that_json_cannot_tell_apart_are_refused_at_the_definition(
    kind: Any, tasks: Any
) -> None:
    def pet(value: Any) -> None:
        """A task."""

    pet.__annotations__["value"] = kind
    with pytest.raises(ConfigurationError, match=r"union.*its own parameter or task.*with tags"):
        tasks(None).task(name="pet")(pet)


def test_what_a_module_defines_later_is_checked_by_the_worker() -> None:
    tasks = Tasks(None)

    def later(value: Nowhere) -> None:  # type: ignore[name-defined] # noqa: F821
        """A task."""

    tasks.task(name="later")(later)
    with pytest.raises(ConfigurationError, match=r"cannot be resolved.*outside of TYPE_CHECKING"):
        tasks.worker()


def test_a_message_of_another_producer_may_be_nested_as_deeply_as_it_can_be_read() -> None:
    arguments = Arguments("t", _any)
    for depth in (MAX_DEPTH, 2 * MAX_DEPTH):
        body = b'{"value":' + b"[" * depth + b"]" * depth + b"}"
        assert orjson.dumps(arguments.decode(body).value) == body[9:-1]
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        arguments.decode(b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def _any(value: Any) -> None:
    """A task."""
