"""Errors cross process boundaries whole, and never carry a password."""

import pickle

import pytest
import redis

import ackq
from ackq import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, ackq.AckqError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_survives_pickling(cls: type[ackq.AckqError]) -> None:
    error = cls("what, which and what to do")
    error.extra = 5  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_with_a_text_only_knows_nothing_else(cls: type[ackq.AckqError]) -> None:
    of_redis = {"error_type", "status_code"}
    known = {name: value for name, value in vars(cls("text")).items() if value}
    assert known.keys() <= of_redis


def test_what_a_push_of_many_stored_survives_pickling_and_is_in_the_text() -> None:
    error = ackq.PartlyStored("no memory").account([3, 0], [], [2, 1])
    again = pickle.loads(pickle.dumps(error))
    assert (again.stored_positions, again.not_stored_positions) == ((0, 3), (1, 2))
    assert again.stored == 2
    assert str(again) == (
        "no memory. Of 4 messages 2 are stored, 0 may be stored, 2 are not stored"
    )


def test_the_drawn_tree_is_the_real_one() -> None:
    drawn = errors.__doc__ or ""
    for cls in CLASSES:
        assert cls.__name__ in drawn


def test_a_lost_reply_is_caught_by_handlers_of_connection_errors() -> None:
    assert issubclass(ackq.UnknownOutcome, redis.ConnectionError)


@pytest.mark.parametrize(
    "text",
    [
        "redis://user:canary@host:6379/0",
        "rediss://:canary@host",
        "unix://u:canary@/tmp/s",
        "cannot reach redis://:can@ary@host/0 now",
        "redis://:PASSWORD@canary@host",
        "redis://user:canary@host, as in redis://:PASSWORD@host:6379",
    ],
)
def test_redact_hides_credentials(text: str) -> None:
    redacted = errors.redact(text)
    assert "canary" not in redacted
    assert "ary" not in redacted
    assert "***@" in redacted


@pytest.mark.parametrize(
    "text",
    [
        "redis://host:6379/0 refused mail for a@b.example",
        "as in redis://:PASSWORD@host:6379 or redis://USER:PASSWORD@host:6379, or",
    ],
)
def test_redact_leaves_other_text_alone(text: str) -> None:
    assert errors.redact(text) == text


def test_a_bad_url_does_not_show_its_password() -> None:
    for url in ("redis://user:can#ary@host", "http://user:canary@host", "redis://:canary@host:x"):
        with pytest.raises(ackq.ConfigurationError) as raised:
            ackq.Queue.from_url(url, "jobs")
        assert "ary" not in str(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__
