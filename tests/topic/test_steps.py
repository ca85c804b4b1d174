"""What operations of a topic do between two requests, with no server."""

from __future__ import annotations

from typing import Any

import pytest

from ackq.config import Confirm
from ackq.core.effects import Operation, Request, Sleep
from ackq.errors import ConfigurationError, KeyTypeError, NotConfirmed, PublishContention
from ackq.topic import place, publish
from ackq.topic.keys import TopicKeys
from ackq.topic.spec import TopicConfig, TopicSpec


def _spec(**settings: Any) -> TopicSpec:
    return TopicSpec("t", TopicKeys.of("t"), TopicConfig(**settings))


def _publish(spec: TopicSpec, confirm: Confirm | None = None) -> tuple[Operation[int], Request]:
    steps = publish.publish(spec, {"id": "a"}, None, 60.0, confirm)
    request = next(steps)
    assert isinstance(request, Request)
    return steps, request


def test_the_settings_of_a_topic_at_their_limits() -> None:
    TopicConfig(max_messages=1, max_body_bytes=1, publish_attempts=1)
    TopicConfig(max_messages=2**53 - 1, max_body_bytes=512 * 1024 * 1024)
    for wrong in ({"max_messages": 0}, {"max_messages": 2**53}, {"max_body_bytes": 0},
                  {"max_body_bytes": 512 * 1024 * 1024 + 1}, {"publish_attempts": 0}):  # fmt: skip
        with pytest.raises(ConfigurationError):
            TopicConfig(**wrong)  # type: ignore[arg-type]


def test_a_place_is_an_index_below_2_to_the_53() -> None:
    for wrong in (0, 2**53, True, "newest", 1.0):
        with pytest.raises(ConfigurationError, match="a place is"):
            next(place.seek(_spec(), "c", wrong))  # type: ignore[arg-type]
    for to, sent in ((1, 0), (2**53 - 1, 2**53 - 2), ("end", "end")):
        request = next(place.seek(_spec(), "c", to))  # type: ignore[arg-type]
        assert isinstance(request, Request)
        assert request.args[5] == sent


@pytest.mark.parametrize(("first", "looked_from"), [(b"6", 6), (b"7", 1), (None, 1), (b"5", 5)])
def test_a_trimmed_topic_begins_at_most_one_after_its_newest_index(
    first: bytes | None, looked_from: int
) -> None:
    spec = _spec()
    steps = place.oldest(spec)
    next(steps)
    if first == b"6":  # all were trimmed
        with pytest.raises(StopIteration) as ended:
            steps.send([b"5", first])
        assert ended.value.value is None
        return
    request = steps.send([b"5", first])
    assert isinstance(request, Request)
    assert request.args[1] == spec.keys.messages(looked_from - 1, 1)[0]


def test_a_key_that_holds_no_index_is_an_error_of_the_topic() -> None:
    for found in ([b"x", b"1"], [b"1", b"x"]):
        steps = place.position(_spec(), "c")
        next(steps)
        with pytest.raises(KeyTypeError, match="topic 't'"):
            steps.send(found)


def test_a_publish_that_too_few_replicas_have_is_not_confirmed() -> None:
    steps, request = _publish(_spec(), Confirm(2))
    assert request.confirm == Confirm(2)
    with pytest.raises(NotConfirmed, match="1 of 2"):
        steps.send(([b"ok", 1, 1], 1))


def test_a_publish_pauses_between_later_attempts_and_then_gives_up() -> None:
    steps, _ = _publish(_spec(publish_attempts=publish.AT_ONCE + 2))
    found: list[Any] = []
    with pytest.raises(PublishContention, match=f"first {publish.AT_ONCE + 2} times"):  # noqa: PT012
        while True:
            last = found[-1] if found else None
            found.append(steps.send(None if isinstance(last, Sleep) else [b"moved", 5, 1]))
    # The first attempt is not in the list, and those after AT_ONCE follow a pause.
    kinds = [type(each) for each in found]
    assert kinds == [Request] * (publish.AT_ONCE - 1) + [Sleep, Request] * 2
