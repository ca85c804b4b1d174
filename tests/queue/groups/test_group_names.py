"""The group of a message, and how a push writes it."""

from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from ackq import Groups, Message
from ackq.config import QueueConfig
from ackq.core.encode import encode
from ackq.errors import ConfigurationError, InvalidMessage
from ackq.queue.group_names import MAX_READ, group_of, grouped, shown_name, tags_of
from ackq.queue.keys import QueueKeys
from ackq.queue.push import push, push_many
from ackq.queue.push_options import PushOptions
from ackq.queue.spec import QueueSpec
from tests.outside import FIXED

LONG = b"x" * MAX_READ


@pytest.mark.parametrize(
    ("body", "group"),
    [
        (b'{"id":"a","customer":"c-17"}', "c-17"),
        (b'{"id": "a", "customer": "c-17", "n": 1}', "c-17"),
        (b'{"n":1,"customer":"c-17"}', "c-17"),
        (b'{"id":"a","customer":17}', "17"),
        (b'{"id":"a","customer":17.0}', "17"),
        (b'{"id":"a","customer":-17}', "-17"),
        (b'{"id":"a","customer":1.5}', None),
        (b'{"id":"a","customer":9007199254740993}', None),
        (b'{"id":"a","customer":-1e300}', None),
        (b'{"id":"a","customer":1e400}', None),
        (b'{"id":"a","customer":""}', None),
        (b'{"id":"a","customer":true}', None),
        (b'{"id":"a","customer":null}', None),
        (b'{"id":"a","customer":["c"]}', None),
        (b'{"id":"a","customers":"c"}', None),
        ('{"id":"a","customer":"ü\\n"}'.encode(), "ü\n"),
        (b'{"customer":"c","n":NaN}', "c"),
        (b'{"customer":"\xff"}', "\ufffd"),
        (b'{"id":"a","customer":"\\ud800"}', None),
        (b'{"id":"a","customer":"\\ud83d\\ude00"}', "\U0001f600"),
        (b'{"customer":"c"', None),
        (b'["customer"]', None),
        (b"customer", None),
        (b'{"id":"a","customer":"c","pad":"%b"}' % LONG, "c"),
        (b'{"id":"a","customer":-17,"pad":"%b"}' % LONG, "-17"),
        ('{"id":"ü","customer":"日本",'.encode() + b'"pad":"%b"}' % LONG, "日本"),
        (b'{"id":17,"customer":"M\xfcller","pad":"%b"}' % LONG, "M\ufffdller"),
        (b'{"id":"a","pad":"%b","customer":"c"}' % LONG, None),
        (b'{"id":"a","customer":"%b"}' % LONG, None),
    ],
)
def test_the_group_of_a_body(body: bytes, group: str | None) -> None:
    assert group_of(body, "customer") == group
    message = Message("jobs", b"a", body, 1, 1, (0.0, None, "customer"))
    assert message.group == group
    assert Message("jobs", b"a", body, 1, 1, (0.0, None, None)).group is None
    assert Message("jobs", b"a", body, 1, 1).group is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"c", "c"),
        (b"\xff", "\ufffd"),
        (b"\1", "\1"),
        (b"\1\xff", "\1\ufffd"),
        (tags_of("g" * 513)[0], "sha1:cfc41ae1fa97a2e57c7f606f72edb25d30ef53a7"),
    ],
)
def test_every_name_can_be_shown(name: bytes, shown: str) -> None:
    assert shown_name(name) == shown


@dataclass
class Record:
    n: int
    customer: str


@pytest.mark.parametrize(
    ("message", "group", "pushed"),
    [
        ({"n": 1}, "c", b'{"id":"AAAAAAAAAAAAAAAA","customer":"c","n":1}'),
        ({"id": "a", "n": 1}, 17, b'{"id":"a","customer":17,"n":1}'),
        ({"n": 1, "customer": "c", "id": "a"}, None, b'{"id":"a","customer":"c","n":1}'),
        ({"n": 1, "customer": "c", "id": "a"}, "c", b'{"id":"a","customer":"c","n":1}'),
        ({"id": "a", "customer": None}, None, b'{"id":"a","customer":null}'),
        ({"id": "a"}, None, b'{"id":"a"}'),
        (Record(1, "c"), None, b'{"id":"AAAAAAAAAAAAAAAA","customer":"c","n":1}'),
        (b'{"n":1}', None, b'{"n":1}'),
    ],
)
def test_a_push_writes_the_group_next_to_the_id(
    message: Any, group: str | int | None, pushed: bytes
) -> None:
    _, body = encode(grouped(message, "customer", group), 1000, FIXED)
    assert body.startswith(b'{"id":"') or body == message
    assert _without_drawn(body) == _without_drawn(pushed)


def _without_drawn(body: bytes) -> Any:
    """Return the members of a body in their order, without a drawn id."""
    members = list(orjson.loads(body).items())
    return [(name, value) for name, value in members if name != "id" or value == "a"]


@pytest.mark.parametrize(
    ("message", "group", "why"),
    [
        (b'{"id":"a"}', "c", "bytes are pushed unchanged"),
        ({"customer": "d"}, "c", "names the group 'd' in 'customer', and group='c' another one"),
        ({}, "", "a group is a text"),
        ({}, 2**53, "a group is a text"),
        ({}, True, "a group is a text"),
        ({}, [1], "a group is a text"),
        (17, "c", "a message is a mapping"),
    ],
)
def test_a_group_that_cannot_be_written_is_refused(message: Any, group: Any, why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        grouped(message, "customer", group)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"groups": "customer"}, "groups is a Groups"),
        ({"groups": Groups("c"), "requeue": "back"}, "leave out requeue and pop_from"),
        ({"groups": Groups("c"), "pop_from": "left"}, "leave out requeue and pop_from"),
    ],
)
def test_settings_that_contradict_groups_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        QueueConfig(**settings)


@pytest.mark.parametrize("field", ["", "id", "a b", "ü", 'a"', 5])
def test_a_field_that_a_script_could_not_find_is_refused(field: Any) -> None:
    wanted = "text, not 5" if field == 5 else "1 to 100 ASCII letters"
    with pytest.raises(ConfigurationError, match=rf"groups\.field is {wanted}"):
        Groups(field)


@pytest.mark.parametrize("number", [0, 1.0, 1001])
def test_a_limit_that_is_no_number_of_messages_is_refused(number: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"groups\.in_flight is an integer"):
        Groups("c", number)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("groups", "options", "why"),
    [
        (None, {"group": "c"}, "has no groups: leave out group="),
        (Groups("c"), {"front": True}, "no push with front= or replace="),
        (Groups("c"), {"unique": "done", "replace": True}, "no push with front= or replace="),
    ],
)
def test_a_push_that_does_not_fit_the_queue_is_refused(
    many: bool, groups: Groups | None, options: dict[str, Any], why: str
) -> None:
    config = QueueConfig(groups=groups)
    spec = QueueSpec("jobs", QueueKeys.of("jobs"), config, outside=FIXED)
    message: Any = [{"id": "a", "n": 1}] if many else {"id": "a", "n": 1}
    with pytest.raises(ConfigurationError, match=why):
        next((push_many if many else push)(spec, message, PushOptions(**options)))


@pytest.mark.parametrize("group", ['a"b', "a\\b", "a\nb", "g" * 1200, 0, 10**15])
def test_a_group_that_no_script_would_find_is_refused(group: str | int) -> None:
    config = QueueConfig(groups=Groups("customer"))
    spec = QueueSpec("jobs", QueueKeys.of("jobs", grouped=True), config, outside=FIXED)
    message = {"id": "m", "pad": LONG.decode()}
    with pytest.raises(InvalidMessage, match="the group of a message over 65536 bytes"):
        next(push(spec, dict(message), PushOptions(group=group)))
    with pytest.raises(InvalidMessage, match="the group of a message over 65536 bytes"):
        next(push_many(spec, [dict(message)], PushOptions(group=group)))
