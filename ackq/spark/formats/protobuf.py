"""Decode bodies that are Protobuf messages, whose types are known only at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError, Message

from ackq.errors import ConfigurationError
from ackq.spark.formats.misfit import Decode, Misfit, check_columns, text_of

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from pyspark.sql.types import StructField

    from ackq.spark.formats.registry import RegisteredSchema

#: The types that come with Protobuf; files may import them without containing them.
_BUILT_IN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )
}
_WRAPPERS = {each.full_name for each in wrappers_pb2.DESCRIPTOR.message_types_by_name.values()}
#: The package of types with a JSON form of their own.
_WELL_KNOWN = "google.protobuf."
_WRONG = "not Protobuf of its schema"
#: Errors for files that do not fit together.
_INVALID = (DecodeError, TypeError, ValueError, KeyError, RecursionError)
#: Errors for values of well-known types without a JSON form, such as a time after the year 9999.
_NO_JSON = (json_format.Error, ValueError, TypeError, RecursionError)
#: Most numbers in the path to a nested type, and most bytes of one of them.
_MAX_DEPTH, _MAX_VARINT = 100, 5


def from_file(schema: bytes, message_type: str | None, columns: Sequence[StructField]) -> Decode:
    """Return the decoder of bodies with a message type of a file.

    Args:
        schema: the file, a FileDescriptorSet that ``protoc`` wrote.
        message_type: its name; None: the last file of the set has only one.
        columns: that the message must have.

    Raises:
        ConfigurationError: the file is no such set, or lacks the message or a column.
    """
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(schema).file
        pool = _pool(each.SerializeToString() for each in files)
        names = [each.full_name for each in _top_types(pool, files[-1].name)]
    except (*_INVALID, IndexError):
        raise ConfigurationError(
            "option 'schemaFile': not a descriptor of Protobuf: compile it with"
            " protoc --include_imports --descriptor_set_out=FILE"
        ) from None
    if message_type is None and len(names) != 1:
        raise ConfigurationError(
            f"option 'messageType' is required, since the schema has {', '.join(names) or 'none'}"
        )
    name = message_type or names[0]
    try:
        kind = pool.FindMessageTypeByName(name)
    except KeyError:
        raise ConfigurationError(
            f"option 'messageType': the schema has no message {name!r}, but {', '.join(names)}"
        ) from None
    check_columns(columns, [field.name for field in kind.fields])
    return _Reader(kind).read


def from_registry(schema: RegisteredSchema) -> Decode:
    """Return the decoder of bodies with a registered schema, which name their message type.

    Raises:
        Misfit: it is no schema of Protobuf.
    """
    import base64

    try:
        *files, last = (base64.b64decode(text) for text in (*schema.references, schema.text))
        named = [
            _renamed(each, name) for each, name in zip(files, schema.reference_names, strict=True)
        ]
        pool = _pool([*named, last])
        kinds = list(_top_types(pool, descriptor_pb2.FileDescriptorProto.FromString(last).name))
    except _INVALID:
        raise Misfit("its schema is not one of Protobuf") from None
    readers: dict[str, _Reader] = {}

    def read(body: bytes) -> dict[str, Any]:
        path, start = _path(body, schema.start)
        kind = _follow(kinds, path)
        if kind.full_name not in readers:
            readers[kind.full_name] = _Reader(kind)
        return readers[kind.full_name].read(body[start:])

    return read


def _renamed(file: bytes, name: str) -> bytes:
    """Return a file under the name by which others import it."""
    parsed = descriptor_pb2.FileDescriptorProto.FromString(file)
    parsed.name = name
    renamed: bytes = parsed.SerializeToString()
    return renamed


def _pool(files: Iterable[bytes]) -> descriptor_pool.DescriptorPool:
    """Return a pool of files, in any order."""
    waiting = {}
    for content in files:
        parsed = descriptor_pb2.FileDescriptorProto.FromString(content)
        waiting[parsed.name] = parsed
    pool = descriptor_pool.DescriptorPool()
    added = set[str]()

    def add(name: str, within: frozenset[str]) -> None:
        if name in added:
            return
        if name in within:
            raise ValueError("files import each other")
        if name in waiting:
            for imported in waiting[name].dependency:
                add(imported, within | {name})
            pool.Add(waiting[name])
        else:
            pool.AddSerializedFile(_BUILT_IN[name])
        added.add(name)

    for name in waiting:
        add(name, frozenset())
    return pool


def _top_types(pool: descriptor_pool.DescriptorPool, file: str) -> Iterator[Descriptor]:
    yield from pool.FindFileByName(file).message_types_by_name.values()


def _path(body: bytes, start: int) -> tuple[list[int], int]:
    """Return the numbers that lead to the message type, and where the message begins.

    Raises:
        Misfit: the body ends, or the numbers are not valid.
    """
    count, at = _varint(body, start)
    if count == 0:
        return [0], at
    if not 0 < count <= _MAX_DEPTH:
        raise Misfit("names no message type")
    path = []
    for _ in range(count):
        number, at = _varint(body, at)
        path.append(number)
    return path, at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number in zigzag form, and where it ends."""
    number = 0
    for place, byte in enumerate(body[at : at + _MAX_VARINT]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise Misfit("names no message type")


def _follow(kinds: Sequence[Descriptor], path: Sequence[int]) -> Descriptor:
    kind = None
    for number in path:
        if not 0 <= number < len(kinds):
            raise Misfit("names no message type")
        kind = kinds[number]
        kinds = kind.nested_types
    assert kind is not None
    return kind


class _Reader:
    """Reads messages of one type. Protobuf limits how deeply they may be nested."""

    def __init__(self, kind: Descriptor) -> None:
        self._class: Callable[[], Message] = message_factory.GetMessageClass(kind)
        self._of_kind = _Fields()

    def read(self, body: bytes) -> dict[str, Any]:
        message = self._class()
        try:
            message.ParseFromString(body)
        except DecodeError:
            raise Misfit(_WRONG) from None
        if not message.IsInitialized():
            raise Misfit("lacks a required field")
        try:
            return self._of_kind.values(message)
        except _NO_JSON:
            raise Misfit(_WRONG) from None


class _Fields:
    """Turns messages into JSON values. What it knows of a type is kept."""

    def __init__(self) -> None:
        self._by_type: dict[str, list[tuple[str, bool, Callable[[Any], Any] | None]]] = {}

    def values(self, message: Message) -> dict[str, Any]:
        kind = message.DESCRIPTOR
        if (fields := self._by_type.get(kind.full_name)) is None:
            fields = [(each.name, each.has_presence, self._converter(each)) for each in kind.fields]
            self._by_type[kind.full_name] = fields
        values: dict[str, Any] = {}
        for name, has_presence, convert in fields:
            if has_presence and not message.HasField(name):
                values[name] = None
            else:
                value = getattr(message, name)
                values[name] = value if convert is None else convert(value)
        return values

    def _converter(self, field: FieldDescriptor) -> Callable[[Any], Any] | None:
        if not field.is_repeated:
            return self._of_one(field)
        entry = field.message_type
        if entry is None or not entry.GetOptions().map_entry:
            one = self._of_one(field)
            return list if one is None else lambda values: [one(each) for each in values]
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        convert = self._of_one(value) or (lambda each: each)
        name = _boolean_name if key.type == key.TYPE_BOOL else str
        return lambda pairs: {name(each): convert(pairs[each]) for each in pairs}

    def _of_one(self, field: FieldDescriptor) -> Callable[[Any], Any] | None:
        if field.message_type is not None:
            return self._of_message(field.message_type.full_name)
        if field.enum_type is not None:
            names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        return text_of if field.type == field.TYPE_BYTES else None

    def _of_message(self, name: str) -> Callable[[Any], Any]:
        if name in _WRAPPERS:
            is_bytes = name.endswith(".BytesValue")
            return lambda wrapper: text_of(wrapper.value) if is_bytes else wrapper.value
        return json_format.MessageToDict if name.startswith(_WELL_KNOWN) else self.values


def _boolean_name(key: bool) -> str:
    return "true" if key else "false"
