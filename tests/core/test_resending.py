"""When a request goes out again, and after how long: the decision alone, with no server."""

from __future__ import annotations

import pytest
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

import ackq
from ackq.core.effects import Request
from ackq.core.io.settings import check_confirm_fits
from ackq.core.retries import ATTEMPTS, pause_before_resend

PASSING = [
    ResponseError("BUSY Redis is busy running a script."),
    BusyLoadingError("loading"),
    ReadOnlyError("read only"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("resend", [True, False])
def test_what_passes_by_itself_is_tried_again_with_doubling_pauses(
    error: Exception, resend: bool
) -> None:
    request = Request((b"LPUSH", b"jobs", b"x"), resend=resend)
    pauses = [pause_before_resend(error, request, True, each) for each in range(ATTEMPTS - 1)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8]
    with pytest.raises(type(error)):
        pause_before_resend(error, request, True, ATTEMPTS - 1)


@pytest.mark.parametrize("error", [ConnectionError("gone"), TimeoutError("late"), OSError("gone")])
def test_a_lost_reply_is_asked_for_again_only_where_that_does_no_harm(error: Exception) -> None:
    harmless, harmful = Request((b"PING",), resend=True), Request((b"LPUSH",))
    assert pause_before_resend(error, harmless, True, 1) == 0.1
    with pytest.raises(ackq.UnknownOutcome):
        pause_before_resend(error, harmful, True, 0)
    with pytest.raises(type(error)):
        pause_before_resend(error, harmless, False, 0)  # it was not sent: the server is away


def test_a_confirmation_ends_before_the_connection_gives_up() -> None:
    check_confirm_fits(0.999, 1.0)
    with pytest.raises(ackq.ConfigurationError, match=r"confirm\.timeout"):
        check_confirm_fits(1.0, 1.0)
