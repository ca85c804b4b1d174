"""Bodies that name their schema, which is in a registry."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import message_factory, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from ackq.errors import SchemaRegistryError
from ackq.spark.formats.registry import LOGIN_VARIABLE
from tests.spark.formats.descriptors import TIMESTAMP, file, message
from tests.spark.formats.registry_server import Registry, registry
from tests.spark.formats.test_bodies import INT, TEXT, Reader, as_avro

PART = {"type": "record", "name": "Part", "fields": [{"name": "size", "type": "int"}]}
CAR = {
    "type": "record",
    "name": "Car",
    "fields": [{"name": "name", "type": "string"}, {"name": "part", "type": "Part"}],
}
LATER_CAR = {**CAR, "fields": [{"name": "n", "type": "int"}, {"name": "name", "type": "string"}]}
MISSING = ["its schema is not in the registry"]


@pytest.fixture
def server() -> Iterator[Registry]:
    with registry() as running:
        yield running


def avro_of(server: Registry, **options: Any) -> Reader:
    return Reader(
        {"name": TEXT, "n": INT}, format="avro", schemaRegistry=server.url + "/", **options
    )


def framed(number: int, data: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + data


def test_each_body_is_read_with_the_schema_that_it_names(server: Registry) -> None:
    server.add(1, json.dumps(CAR), references=[{"name": "Part", "subject": "p/a", "version": 2}])
    server.replies["/subjects/p/a/versions/2"] = {"schema": json.dumps(PART)}
    server.add(258, json.dumps(LATER_CAR))
    reader = avro_of(server)
    inline = {**CAR, "fields": [CAR["fields"][0], {"name": "part", "type": PART}]}
    old = framed(1, as_avro({"name": "a", "part": {"size": 1}}, inline))
    new = framed(258, as_avro({"name": "b", "n": 2}, LATER_CAR))
    expected = [{"name": "a", "n": None}, {"name": "b", "n": 2}]
    assert reader.read(old, new, old) == [*expected, expected[0]]
    assert reader.reasons(old[:-1]) == ["not Avro of its schema"]
    paths = ["/schemas/ids/1", "/subjects/p%2Fa/versions/2", "/schemas/ids/258"]
    assert server.requests == paths  # each once, whatever the number of bodies


def test_bodies_whose_schema_is_not_there_or_of_no_use(
    server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add(2, json.dumps(CAR), schemaType="JSON")
    server.add(3, "no schema")
    server.add(4, json.dumps("int"))
    server.add(5, json.dumps(CAR), references=[{"name": "P", "subject": "p", "version": 1}])
    reader = avro_of(server)
    assert reader.reasons(framed(1, b"")) == reader.reasons(framed(5, b"")) == MISSING
    assert reader.reasons(framed(2, b"")) == ["its schema is of another format"]
    unusable = ["its schema is not one of an Avro record"]
    assert reader.reasons(framed(3, b"")) == reader.reasons(framed(4, b"")) == unusable
    for body in (b"", b"\x00\x00", b'{"name":"a"}', b"\x01" + framed(1, b"")[1:]):
        assert reader.reasons(body) == ["names no schema"]
    asked = len(server.requests)
    server.add(1, json.dumps(LATER_CAR))
    body = framed(1, as_avro({"name": "b", "n": 2}, LATER_CAR))
    assert reader.reasons(body) == MISSING
    assert len(server.requests) == asked
    monkeypatch.setattr("ackq.spark.formats.registry.time.monotonic", lambda: 10.0**9)
    assert reader.read(body) == [{"name": "b", "n": 2}]


@pytest.mark.parametrize("reply", [401, 500, b"{", b"[]", {"message": "?"}])
def test_a_registry_that_does_not_answer_is_an_error_and_no_misfit(
    server: Registry, reply: Any
) -> None:
    server.replies["/schemas/ids/1"] = reply
    # Only a 500 is repeated, so the others raise at once.
    reader = avro_of(server, retryTimeoutMs=0 if reply == 500 else 60_000)
    with pytest.raises(SchemaRegistryError, match=server.url):
        reader.read(framed(1, b""))
    assert len(server.requests) == 1
    server.add(1, json.dumps(LATER_CAR))
    assert reader.read(framed(1, as_avro({"name": "b", "n": 2}, LATER_CAR))) == [
        {"name": "b", "n": 2}
    ]


def test_a_request_is_repeated_while_the_registry_fails(server: Registry) -> None:
    server.add(1, json.dumps(LATER_CAR))
    server.failures = 2
    body = framed(1, as_avro({"name": "b", "n": 2}, LATER_CAR))
    assert avro_of(server).read(body) == [{"name": "b", "n": 2}]
    assert len(server.requests) == 3


def test_the_login_comes_from_the_environment(
    server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.login = "user:canary"
    server.add(1, json.dumps(LATER_CAR))
    body = framed(1, as_avro({"name": "b", "n": 2}, LATER_CAR))
    with pytest.raises(SchemaRegistryError, match=LOGIN_VARIABLE) as raised:
        avro_of(server).read(body)
    monkeypatch.setenv(LOGIN_VARIABLE, "user:canary")
    assert avro_of(server).read(body) == [{"name": "b", "n": 2}]
    assert "canary" not in str(raised.value)


def test_protobuf_names_its_message_by_its_place_in_the_schema(server: Registry) -> None:
    outer = message("Outer", f"{TIMESTAMP} at")
    outer.nested_type.add().CopyFrom(message("First", "string name"))
    outer.nested_type.add().CopyFrom(message("Second", "string name", ".Shared shared"))
    shared = file(message("Shared", "int32 n"), name="as-registered.proto")
    shared.ClearField("enum_type")
    main = file(message("Car", "string name", "int32 n"), outer, name="main.proto")
    main.dependency.append("shared.proto")
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    named = type(shared).FromString(shared.SerializeToString())
    named.name = "shared.proto"
    pool.Add(named)
    pool.Add(main)
    encoded = {name: as_text(each) for name, each in (("main", main), ("shared", shared))}
    server.add(
        7,
        encoded["main"],
        schemaType="PROTOBUF",
        references=[{"name": "shared.proto", "subject": "shared", "version": 1}],
    )
    server.replies["/subjects/shared/versions/1"] = {"schema": encoded["shared"]}

    def data(kind: str, **fields: Any) -> bytes:
        made = message_factory.GetMessageClass(pool.FindMessageTypeByName(kind))(**fields)
        found: bytes = made.SerializeToString()
        return found

    reader = Reader(
        {"name": TEXT, "n": INT, "shared": TEXT}, format="protobuf", schemaRegistry=server.url
    )
    first, nested = data("Car", name="a", n=1), data("Outer.Second", name="b", shared={"n": 5})
    assert reader.read(
        framed(7, b"\x00" + first),
        framed(7, b"\x02\x00" + first),
        framed(7, b"\x04\x02\x02" + nested),
    ) == [
        {"name": "a", "n": 1, "shared": None},
        {"name": "a", "n": 1, "shared": None},
        {"name": "b", "n": None, "shared": '{"n":5}'},
    ]
    assert all(path.endswith("?format=serialized") for path in server.requests)
    for path in (b"", b"\x04\x02", b"\x01", b"\x02\x04", b"\x02\x01", b"\xff" * 9, b"\xfe\x7f"):
        assert reader.reasons(framed(7, path)) == ["names no message type"]


def as_text(each: Any) -> str:
    return base64.b64encode(each.SerializeToString()).decode()


#: A file with the messages Car (name, n) and Outer, in which In (name, at).
REGISTERED = (
    "Cgd2LnByb3RvEgF2Gh9nb29nbGUvcHJvdG9idWYvdGltZXN0YW1wLnByb3RvIh4KA0NhchIMCgRuYW1lGAEgASgJEgkK"
    "AW4YAiABKAUiTgoFT3V0ZXISCQoBeBgBIAEoCRo6CgJJbhIMCgRuYW1lGAEgASgJEiYKAmF0GAIgASgLMhouZ29vZ2xl"
    "LnByb3RvYnVmLlRpbWVzdGFtcGIGcHJvdG8z"
)


def test_bodies_that_confluents_own_serializers_wrote(server: Registry) -> None:
    # confluent-kafka 2.16.1, with its registry for tests.
    server.add(1, json.dumps({**CAR, "fields": [CAR["fields"][0], {"name": "n", "type": "int"}]}))
    server.add(2, REGISTERED, schemaType="PROTOBUF")
    assert avro_of(server).read(bytes.fromhex("0000000001026104")) == [{"name": "a", "n": 2}]
    reader = Reader({"name": TEXT}, format="protobuf", schemaRegistry=server.url)
    bodies = ("0000000002000a01611002", "00000000020402000a0162")
    assert reader.read(*map(bytes.fromhex, bodies)) == [{"name": "a"}, {"name": "b"}]
