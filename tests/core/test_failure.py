"""Where an error came from, and which servers are refused: the decisions, with no server."""

from __future__ import annotations

import sysconfig
from typing import Any

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from ackq.core.client_async import client_of
from ackq.core.failure import capture, parse, place_of
from ackq.core.server import check_server
from ackq.errors import (
    ConfigurationError,
    CrossSlotError,
    EvictionPolicyError,
    UnsupportedServer,
)

INSTALLED = f"{sysconfig.get_path('purelib')}/app/tasks.py"


def _raised(file: str, module: str) -> BaseException:
    namespace: dict[str, Any] = {"__name__": module}
    exec(compile("def f():\n    raise KeyError('x')\n", file, "exec"), namespace)
    with pytest.raises(KeyError) as raised:
        namespace["f"]()
    return raised.value


@pytest.mark.parametrize(
    ("file", "module", "package", "place"),
    [
        ("/srv/handlers.py", "handlers", "", "/srv/handlers.py:2 in f"),
        (INSTALLED, "app.tasks", "app", f"{INSTALLED}:2 in f"),
        (INSTALLED, "app.tasks", "application", f"{__file__}:"),
        ("<string>", "generated", "", f"{__file__}:"),
        ("<string>", "app.generated", "app", "<string>:2 in f"),
    ],
)
def test_the_place_of_an_error_is_in_the_users_code(
    file: str, module: str, package: str, place: str
) -> None:
    assert place_of(_raised(file, module), package, "defined").startswith(place)


def test_an_error_outside_the_users_code_is_where_the_handler_is_defined() -> None:
    error = _raised(INSTALLED, "app.tasks")
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next  # without the frame of this test
    assert place_of(error, "", "defined") == "defined"
    assert place_of(error) == f"{INSTALLED}:2 in f"
    assert place_of(KeyError(), "", "defined") == "defined"


def test_what_is_stored_of_an_error_is_read_again() -> None:
    error = _raised("/srv/handlers.py", "handlers")
    assert capture(None, "text") == capture(error, "none") == b""
    (kept,) = parse(b"2:1500000:" + capture(error, "text"))
    assert (kept.attempt, kept.at, kept.type, kept.text) == (2, 1.5, "KeyError", "'x'")
    assert (kept.place, kept.traceback) == ("/srv/handlers.py:2 in f", "")
    assert parse(b"2:1500000:" + capture(error, "type"))[0].text == ""
    (kept,) = parse(b"2:1500000:" + capture(error, "traceback"))
    assert kept.traceback.endswith("KeyError: 'x'\n")
    assert parse(b"1:2:") == (type(kept)(1, 2e-6),)
    assert parse(b"x:2:\n1:2:[]\n1:2:{") == ()


@pytest.mark.parametrize(
    ("info", "error"),
    [
        (b"redis_version:6.0.16\r\n", UnsupportedServer),
        (b"redis_version:5.4.0\r\n", UnsupportedServer),
        (b"redis_version:6.2.0\r\nmaxmemory_policy:allkeys-lru\r\n", EvictionPolicyError),
        (b"redis_version:7.0.15\r\ncluster_enabled:1\r\n", CrossSlotError),
        (b"redis_version:6.2.0\r\nmaxmemory_policy:volatile-lru\r\ncluster_enabled:0", None),
        (b"redis_version:10.0.0\r\n", None),
        (b"\xff\r\nno field\r\n", None),
        (NoPermissionError(), None),
        (ResponseError("unknown command 'INFO'"), None),
        (ResponseError("LOADING"), ResponseError),
    ],
)
def test_a_server_that_could_lose_messages_is_refused(
    info: bytes | Exception, error: type[Exception] | None
) -> None:
    steps = check_server("jobs")
    assert next(steps).resend  # type: ignore[union-attr]
    with pytest.raises(error or StopIteration) as raised:
        steps.throw(info) if isinstance(info, Exception) else steps.send(info)
    if error is CrossSlotError:
        assert "name it '{jobs}'" in str(raised.value)
        steps = check_server("{jobs}")
        next(steps)
        with pytest.raises(StopIteration):
            steps.send(info)


def test_a_password_that_breaks_the_url_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as raised:
        client_of("redis://user:can/ary@host:1234/0")
    assert "ary" not in str(raised.value)
