"""Types that msgspec does not know by itself, as JSON and back: models of pydantic, paths, …"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec

#: Types whose text, as `str` writes it, they can be made of again.
_AS_TEXT = (
    PurePath,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)


def encoded(value: Any) -> Any:
    """Return a value that msgspec can write.

    Raises:
        TypeError: there is none.
    """
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, _AS_TEXT):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


def decoded(kind: Any, value: Any) -> Any:
    """Return the value of type ``kind`` that `encoded` was given.

    Raises:
        ValueError: it does not fit. Pydantic's own error would show the value.
    """
    if not hasattr(kind, "model_validate"):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"Expected a valid {kind.__name__}") from None
    from pydantic import ValidationError

    try:
        return kind.model_validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        place = f" - at `{where.removeprefix('.')}` of {kind.__name__}" if where else ""
        raise ValueError(f"{first['msg']}{place}") from None


def unknown_types(kind: Any) -> Iterator[type]:
    """Yield the classes in a type whose values cannot be read, or not with all of their checks."""
    seen: set[int] = set()
    waiting: list[Any] = [msgspec.inspect.type_info(kind)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple | list):
            waiting += node
        elif isinstance(node, msgspec.Struct) and id(node) not in seen:
            seen.add(id(node))
            waiting += [getattr(node, name) for name in node.__struct_fields__]
            if not _is_known(node):
                yield node.cls  # type: ignore[attr-defined]


def _is_known(node: msgspec.Struct) -> bool:
    kind = getattr(node, "cls", None)
    if isinstance(node, msgspec.inspect.CustomType):
        return hasattr(kind, "model_validate") or issubclass(node.cls, _AS_TEXT)
    # Msgspec does not run the validators of a dataclass of pydantic.
    return not hasattr(kind, "__pydantic_validator__")


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type that msgspec does not know."""
    if hasattr(kind, "model_json_schema"):
        return dict(kind.model_json_schema(ref_template="#/$defs/{model}"))
    return {"type": "string", "title": kind.__name__}
