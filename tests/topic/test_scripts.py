"""The scripts alone: they refuse bad calls before they change anything, also on a full server."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
import redis
from redis.exceptions import NoScriptError, OutOfMemoryError, ResponseError

from ackq import scripts
from ackq.embedded import Server
from ackq.topic import Topic
from tests.topic.conftest import Keys, bodies

NAMES = [name for name in scripts.names() if name.startswith("topic/")]
TOKEN = "0123456789abcdef"
#: Good arguments of each script, and their ranges where they are integers.
ARGUMENTS: dict[str, list[Any]] = {
    "topic/publish": [2, 0, 0, 0, 1, 0, "body"],
    "topic/consume": [0, 2, 30_000_000, TOKEN, 0],
    "topic/commit": [f"1:1:{TOKEN}"],
    "topic/extend": [1_000_000, f"1:1:{TOKEN}"],
    "topic/seek": [1, "present"],
    "topic/trim": [1, 1],
    "topic/probe": [],
}
KEYS = {
    "topic/publish": ["nextIndex", "firstIndex", "wake", "dedup:", "messages:3"],
    "topic/consume": [
        "nextIndex",
        "firstIndex",
        "consumers:c",
        "leases:c",
        "ranges:c",
        "messages:1",
        "messages:2",
    ],
    "topic/commit": ["consumers:c", "leases:c", "ranges:c"],
    "topic/extend": ["consumers:c", "leases:c", "ranges:c"],
    "topic/seek": ["nextIndex", "consumers:c", "leases:c", "ranges:c"],
    "topic/trim": ["nextIndex", "firstIndex", "messages:1"],
    "topic/probe": ["messages:1"],
}


def text_of(name: str) -> str:
    return scripts.load(name).text.decode()


def call(keys: Keys, name: str, *args: Any) -> Any:
    script = scripts.load(name)
    named = [keys.key(slot) for slot in KEYS[name]]
    try:
        return keys.client.evalsha(script.sha.decode(), len(named), *named, *args)
    except NoScriptError:
        return keys.client.eval(script.text, len(named), *named, *args)


def dump(keys: Keys) -> dict[bytes, bytes]:
    return {key: keys.client.dump(key) for key in keys.client.scan_iter(f"{keys.name}:*")}


@pytest.fixture
def filled(plain_keys: Keys, plain: Any) -> Keys:
    """Two messages, one of them leased to consumer c."""
    topic = plain()
    topic.publish_many([b"one", b"two"])
    topic.subscribe("c")
    topic.consume("c")
    return plain_keys


@pytest.mark.parametrize("script", NAMES)
def test_an_integer_out_of_its_range_is_refused_before_anything_is_changed(
    filled: Keys, script: str
) -> None:
    before = dump(filled)
    slots = re.findall(r"^-- ARGV\[(\d+)\] \w+ +integer (\d+)\.\.(\S+)", text_of(script), re.M)
    for place, low, high in slots:
        top = 2**53 - 1 if high.startswith("2^53") else int(high.rstrip(","))
        for bad in ("", "x", "nan", "inf", "1.5", int(low) - 1, top + 1):
            args = list(ARGUMENTS[script])
            args[int(place) - 1] = bad
            with pytest.raises(ResponseError, match="ACKQ_ARGUMENT"):
                call(filled, script, *args)
    assert dump(filled) == before


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ("topic/publish", [2, 0, 0, 0, 1, 0]),
        ("topic/publish", [2, 0, 0, 0, 1, 0, "more bodies", "than keys"]),
        ("topic/publish", [2, 0, 0, 2, 1, 0, "x"]),
        ("topic/consume", [0, 2, 1, "no token", 0]),
        ("topic/consume", [0, 2, 1, TOKEN, 0, "no range"]),
        ("topic/commit", ["1:1"]),
        ("topic/commit", ["1:1:x"] * 1001),
        ("topic/extend", [0, "1:x:y"]),
        ("topic/seek", ["start", "present"]),
        ("topic/seek", [1, "maybe"]),
    ],
)
def test_other_bad_arguments_are_refused(filled: Keys, script: str, args: list[Any]) -> None:
    before = dump(filled)
    with pytest.raises(ResponseError, match="ACKQ_ARGUMENT"):
        call(filled, script, *args)
    assert dump(filled) == before


@pytest.mark.parametrize(
    ("script", "slot"),
    [(script, slot) for script in NAMES for slot in KEYS[script] if "messages" not in slot],
)
def test_a_key_of_another_type_is_an_error_before_anything_is_changed(
    filled: Keys, script: str, slot: str
) -> None:
    filled.client.delete(filled.key(slot))
    if slot in ("leases:c", "ranges:c", "wake"):
        filled.client.set(filled.key(slot), "text")
    else:
        filled.client.rpush(filled.key(slot), "a list")
    before = dump(filled)
    args = list(ARGUMENTS[script])
    if script == "topic/publish" and slot == "dedup:":
        args[5] = 1000
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        call(filled, script, *args)
    assert dump(filled) == before


def test_ranges_that_are_void_are_not_deleted_beside_a_key_of_another_type(filled: Keys) -> None:
    filled.client.delete(filled.key("consumers:c"))
    filled.client.set(filled.key("leases:c"), "text")
    before = dump(filled)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        call(filled, "topic/consume", *ARGUMENTS["topic/consume"], f"1:1:{TOKEN}")
    assert dump(filled) == before


def test_a_wrong_guess_writes_nothing(filled: Keys) -> None:
    before = dump(filled)
    for guess in (0, 1, 3, 99):
        assert call(filled, "topic/publish", guess, 0, 0, 0, 1, 0, "x") == [b"moved", 2, 1]
    moved = call(filled, "topic/consume", 5, 1, 1000, TOKEN, 0)
    assert moved == [b"moved", [], 2, 2]
    assert dump(filled) == before


def test_skipping_takes_nothing_that_is_not_there_or_was_not_named(filled: Keys) -> None:
    before = dump(filled)
    for guess, skipped in ((5, 2), (3, 2), (2, 1)):
        reply = call(filled, "topic/consume", guess, 1, 1000, TOKEN, skipped)
        assert reply == [b"moved", [], 2, 2]
    assert dump(filled) == before


def test_a_full_server_still_reads_commits_and_trims(server: Server, token: str) -> None:
    with (
        redis.Redis.from_url(server.url) as client,
        Topic.from_url(server.url, token) as topic,
    ):
        topic.publish_many([b"x" * 1000] * 100)
        topic.subscribe("c")
        batch = topic.consume("c", 5)
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(OutOfMemoryError):
                topic.publish(b"y")
            assert topic.extend(batch) == topic.release(batch) == 1
            again = topic.consume("c", 5)
            assert len(bodies(again)) == 5
            assert len(topic.consume("c", 5, commit=again)) == 5
            assert topic.position("c") == 5
            assert topic.trim(10) == 90
            topic.seek("c", "end")
            assert topic.unsubscribe("c")
        finally:
            client.config_set("maxmemory", 0)
        assert topic.publish(b"y") == 101


def test_the_sha_is_of_the_text() -> None:
    for script in map(scripts.load, NAMES):
        assert hashlib.sha1(script.text).hexdigest().encode() == script.sha
