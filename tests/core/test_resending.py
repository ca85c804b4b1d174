"""When a request goes out again, and after how long: the decision alone, with no server."""

import pytest
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

import ackq
from ackq.core.effects import Request
from ackq.core.io.settings import check_confirm_fits
from ackq.core.retries import (
    ATTEMPTS,
    ScriptHalted,
    pause_before_resend,
    raise_if_unknown,
    unwrapped,
)

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
    pauses = [pause_before_resend(error, request, True, number) for number in range(ATTEMPTS - 1)]
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


def test_an_error_within_a_script_is_that_of_its_command() -> None:
    before = "Error running script (call to f_0): @user_script:7: -"
    for code, kind in (
        ("OOM", OutOfMemoryError),
        ("READONLY", ReadOnlyError),
        ("NOREPLICAS", ResponseError),
    ):
        error = ResponseError(f"{before}{code} no more")
        found = unwrapped(error)
        assert (type(found), str(found), found.__cause__) == (kind, f"{code} no more", error)
    for other in (
        ResponseError(f"{before}ERR x"),
        ReadOnlyError(f"{before}OOM x"),
        ConnectionError("gone"),
    ):
        assert unwrapped(other) is other


def test_what_a_script_meets_in_a_cluster_is_recognized_on_every_server() -> None:
    where = "script: 5d40216452cb1640059551a21c575cc00ad76b94, on @user_script:1."
    older = "Error running script (call to f_5d40): @user_script:1: @user_script: 1: Lua script"
    for text, kind in (
        (f"{older} attempted to access a non local key in a cluster node", ScriptHalted),
        (f"Script attempted to access a non local key in a cluster node {where}", ScriptHalted),
        ("Attempted to access a non local key in a cluster node script: on @user:1.", ScriptHalted),
        (
            "Unable to execute command 'lmove' in script because undeclared keys were accessed"
            f" during rehashing of the slot {where}",
            ScriptHalted,
        ),
        (
            f"{older} attempted to execute a write command while the cluster is down and readonly",
            ClusterDownError,
        ),
        (
            "Can not execute a write command 'set' while the cluster is down and readonly script:"
            " on @user_script:1.",
            ClusterDownError,
        ),
    ):
        error = ResponseError(text)
        found = unwrapped(error)
        assert (type(found), str(found), found.__cause__) == (kind, text, error)
    again = TryAgainError("Multiple keys request during rehashing of slot")
    assert unwrapped(again) is again


def test_a_script_that_ended_halfway_counts_as_a_lost_reply() -> None:
    harmless, harmful = Request((b"k",), resend=True), Request((b"k",))
    assert pause_before_resend(ScriptHalted("refused"), harmless, True, 0) == 0.05
    with pytest.raises(ackq.UnknownOutcome, match=r"the script ended halfway \(refused\): the"):
        pause_before_resend(ScriptHalted("refused"), harmful, True, 0)
    assert harmless.reply_lost
    assert harmful.reply_lost


def test_a_refused_login_says_what_to_do() -> None:
    for reply, advice in (
        ("AUTH <password> called without any password configured", "the server has no password"),
        ("Client sent AUTH, but no password is set", "the server has no password"),
        ("invalid username-password pair", "rejected the user name or the password"),
        ("WRONGPASS", "rejected the user name or the password"),
        (
            "NOAUTH",
            "the server requires a password: put it into the URL, as in"
            " redis://:PASSWORD@host:6379 or",
        ),
    ):
        with pytest.raises(ackq.LoginRefused, match=advice):
            pause_before_resend(AuthenticationError(reply), Request((b"PING",)), False, 0)


def test_redirections_end_after_sixteen() -> None:
    moved, request = MovedError("5 h:1"), Request((b"GET", b"k"))
    assert pause_before_resend(moved, request, True, 15) == 0.0
    with pytest.raises(MovedError):
        pause_before_resend(moved, request, True, 16)


def test_an_unknown_script_is_sent_as_text_once() -> None:
    request = Request((b"k",))
    assert pause_before_resend(NoScriptError("NOSCRIPT"), request, True, 5) == 0.0
    assert request.by_text
    with pytest.raises(NoScriptError):
        pause_before_resend(NoScriptError("NOSCRIPT"), request, True, 0)


def test_an_unknown_outcome_says_why_and_shows_no_password() -> None:
    for error, why in (
        (ConnectionError("redis://:secret@h"), r"\(redis://\*\*\*@h\): the request"),
        (ConnectionError(), r"\(ConnectionError\): the request"),
    ):
        request = Request((b"LPUSH",))
        with pytest.raises(ackq.UnknownOutcome, match=why):
            pause_before_resend(error, request, True, 0)
        assert request.reply_lost
    raise_if_unknown(ConnectionError("x"), Request((b"k",)))
    with pytest.raises(ackq.UnknownOutcome, match=r"sent again failed \(redis://\*\*\*@h\): the m"):
        raise_if_unknown(ConnectionError("redis://:secret@h"), Request((b"k",), reply_lost=True))
