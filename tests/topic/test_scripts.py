"""The scripts alone: they refuse bad calls before they change anything, also on a full server."""

import hashlib
from typing import Any

import pytest
import redis
from redis.exceptions import NoScriptError, OutOfMemoryError, ResponseError

from ackq import scripts
from ackq.embedded import Server
from ackq.topic import Topic
from tests.facts.topic import TOKEN
from tests.queue.scripts.calls import ALL
from tests.topic.conftest import Keys, bodies

CALLS = {call.script: call.args for call in ALL if call.script.startswith("topic/")}
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
}


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


def test_ranges_that_are_void_are_not_deleted_beside_a_key_of_another_type(filled: Keys) -> None:
    filled.client.delete(filled.key("consumers:c"))
    filled.client.set(filled.key("leases:c"), "text")
    before = dump(filled)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        call(filled, "topic/consume", *CALLS["topic/consume"], f"1:1:{TOKEN}")
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
    for script in map(scripts.load, CALLS):
        assert hashlib.sha1(script.text).hexdigest().encode() == script.sha
