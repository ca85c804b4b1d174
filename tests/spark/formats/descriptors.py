"""Descriptors of Protobuf, as ``protoc --include_imports --descriptor_set_out`` writes them."""

from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_TYPES = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
}
TIMESTAMP = ".google.protobuf.Timestamp"


def message(name: str, *fields: str) -> DescriptorProto:
    """Return a message; fields are as in ``int32 n``, with ``repeated`` or ``optional`` before."""
    made = DescriptorProto(name=name)
    for number, field in enumerate(fields, 1):
        *label, kind, called = field.split()
        one = made.field.add(name=called, number=number)
        if label == ["repeated"]:
            one.label = FieldDescriptorProto.LABEL_REPEATED
        else:
            one.label = FieldDescriptorProto.LABEL_OPTIONAL
        if label == ["optional"]:
            one.proto3_optional = True
            one.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{called}")
        if kind in _TYPES:
            one.type = _TYPES[kind]
        else:
            is_enum = kind.startswith("enum.")
            one.type = (
                FieldDescriptorProto.TYPE_ENUM if is_enum else FieldDescriptorProto.TYPE_MESSAGE
            )
            one.type_name = kind.removeprefix("enum") if is_enum else kind
    return made


def map_of(made: DescriptorProto, name: str, key: str, value: str) -> None:
    """Add a map to a message."""
    entry = made.nested_type.add()
    entry.CopyFrom(message(f"{name.capitalize()}Entry", f"{key} key", f"{value} value"))
    entry.options.map_entry = True
    made.field.add(
        name=name,
        number=len(made.field) + 1,
        label=FieldDescriptorProto.LABEL_REPEATED,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{made.name}.{entry.name}",
    )


def file(*messages: DescriptorProto, name: str = "test.proto") -> FileDescriptorProto:
    """Return a file with some messages, which may have timestamps."""
    made = FileDescriptorProto(
        name=name, syntax="proto3", message_type=messages, dependency=[TIMESTAMP_FILE]
    )
    enum = made.enum_type.add(name="Kind")
    for number, each in enumerate(("NONE", "CAR")):
        enum.value.add(name=each, number=number)
    return made


TIMESTAMP_FILE = timestamp_pb2.DESCRIPTOR.name


def descriptor_set(*files: FileDescriptorProto) -> bytes:
    """Return a descriptor set."""
    made: bytes = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    return made
