"""Why a delivery failed: captured from an exception, and stored as one line of JSON."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ackq.config import RecordErrors
from ackq.errors import ConfigurationError, redact

#: Characters that are kept of an error's text, its type, its place and its traceback.
MAX_TEXT = 500
MAX_TYPE = 200
MAX_PLACE = 300
MAX_TRACEBACK = 4000
#: Most bytes of one failure; the scripts check this.
MAX_STORED = 8192
#: Instead of a text that cannot be read.
UNREADABLE = "(its text cannot be read)"
#: Characters of an error's text that are searched for credentials.
_MAX_READ = 4000
_ACKQ = Path(__file__).parents[1]
#: Folders of code that is not the user's: the standard library and installed packages.
_INSTALLED = tuple({sysconfig.get_path(folder) for folder in ("stdlib", "purelib", "platlib")})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one delivery of a message failed. All text is untrusted: escape it before display."""

    #: The receive count of that delivery.
    attempt: int
    #: When it was recorded, in seconds since the epoch by the server's clock.
    at: float
    #: The exception's qualified name, such as "app.errors.CardDeclined". Empty if the lease ended
    #: without an error, for example because the worker was killed.
    type: str = ""
    #: Its text, at most 500 characters, without credentials of URLs.
    text: str = ""
    #: The innermost line of the user's code: "file:line in function". Empty if unknown.
    place: str = ""
    #: The end of the traceback, at most 4,000 characters; empty unless it is recorded.
    traceback: str = ""

    @property
    def lease_ended(self) -> bool:
        """Whether the lease ended without any error being reported."""
        return not self.type

    @property
    def cause(self) -> str:
        """The type and the place, as in "KeyError at app.py:7 in handle"; or "lease ended".

        Of a message that ended its process, which has no place: how the process ended.
        """
        if self.lease_ended:
            return "lease ended"
        if self.place:
            return f"{self.type} at {self.place}"
        return (self.text if self.type == ChildProcessError.__name__ else "") or self.type


@dataclass(frozen=True, slots=True)
class Description:
    """An error as plain text, read once: its class is the user's, so reading it again may fail."""

    #: Its qualified name, such as "app.errors.CardDeclined".
    type: str
    #: Without credentials of URLs, not escaped and not cropped.
    text: str
    #: The innermost line of the user's code: "file:line in function". Empty if unknown.
    place: str
    #: Empty unless it was asked for.
    traceback: str = ""

    @property
    def name(self) -> str:
        """The name of its class alone."""
        return self.type.rpartition(".")[2]

    def stored(self, detail: RecordErrors) -> bytes:
        """Return what to store; empty if nothing is."""
        if detail == "none":
            return b""
        fields = {"type": self.type[:MAX_TYPE], "place": self.place[-MAX_PLACE:]}
        if detail != "type":
            fields["text"] = self.text[:MAX_TEXT]
        for kept in (MAX_TRACEBACK, MAX_TRACEBACK // 4, 0):
            if detail == "traceback":
                fields["traceback"] = self.traceback[-kept:] if kept else ""
            stored = orjson.dumps(fields)
            if len(stored) <= MAX_STORED:
                break
        return stored


def describe(
    error: BaseException, package: str = "", defined: str = "", trace: bool = False
) -> Description:
    """Return an error as plain text. This never raises, whatever the error's class does.

    Args:
        error: as raised. An exception that was never raised has no place.
        package: whose code counts as the user's even if it is installed.
        defined: the place to give if no line of the user's code ran.
        trace: whether the traceback is wanted.
    """
    kind = type(error)
    return Description(
        as_text(kind, name_of, type.__dict__["__name__"].__get__(kind)),
        text_of(error),
        as_text(error, lambda error: place_of(error, package, defined), defined),
        redact(as_text(error, _lines_of)) if trace else "",
    )


def _lines_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def as_text(value: Any, read: Callable[[Any], str] = str, otherwise: str = UNREADABLE) -> str:
    """Return the text of a value that comes from outside, as UTF-8 can hold it; never raise.

    Args:
        value: whose methods may raise anything, exit, or return something else.
        read: returns its text. Defaults to `str`.
        otherwise: the text if that fails.
    """
    try:
        text = str.__str__(read(value))  # a plain one, not that of a subclass
        return text.encode(errors="replace").decode()
    except BaseException:
        return otherwise


def capture(
    error: BaseException | None, detail: RecordErrors, package: str = "", defined: str = ""
) -> bytes:
    """Return what to store about ``error``; empty if there is nothing to store.

    Args:
        error: as raised. An exception that was never raised has no place.
        detail: how much to store.
        package: whose code counts as the user's even if it is installed.
        defined: the place to give if no line of the user's code ran.

    Raises:
        ConfigurationError: ``error`` is not an exception.
    """
    if error is None or detail == "none":
        return b""
    if not issubclass(type(error), BaseException):
        raise ConfigurationError(f"error is an exception, not {type(error).__name__}")
    return describe(error, package, defined, detail == "traceback").stored(detail)


def parse(lines: bytes) -> tuple[Failure, ...]:
    """Return the failures that the scripts stored, oldest first. Lines with mistakes are left out.

    Args:
        lines: each ``receive count:time in µs:failure``, where an empty failure is the end of a
            lease.
    """
    return tuple(_parsed(lines))


def _parsed(lines: bytes) -> Iterator[Failure]:
    for line in lines.split(b"\n"):
        attempt, _, rest = line.partition(b":")
        time, _, stored = rest.partition(b":")
        try:
            fields = orjson.loads(stored) if stored else {}
            yield Failure(int(attempt), int(time) / 1_000_000, *map(str, _values(fields)))
        except (ValueError, TypeError, AttributeError):
            continue


def _values(fields: dict[str, Any]) -> Iterator[Any]:
    return (fields.get(name, "") for name in ("type", "text", "place", "traceback"))


def name_of(kind: type) -> str:
    """Return the qualified name of an exception class, without the module of built-in ones."""
    module = str(getattr(kind, "__module__", ""))
    return kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}"


def text_of(error: BaseException) -> str:
    """Return the text of an error without the credentials of URLs, not escaped and not cropped."""
    return redact(as_text(error, lambda error: str(error)[:_MAX_READ]))


def true(error: BaseException, name: str) -> Any:
    """Return an attribute of an exception, such as "__cause__", even if its class overrides it."""
    return getattr(BaseException, name).__get__(error)


def place_of(error: BaseException, package: str = "", defined: str = "") -> str:
    """Return "file:line in function" of the innermost frame of the user's code.

    If there is none, return ``defined``, else the innermost frame outside ackq, else "".

    Args:
        error: as raised.
        package: whose code counts as the user's even if it is installed.
        defined: the place to give if no line of the user's code ran.
    """
    others = ""
    for frame, line in reversed(list(traceback.walk_tb(true(error, "__traceback__")))):
        file = frame.f_code.co_filename
        if Path(file).is_relative_to(_ACKQ):
            continue
        place = f"{file}:{line} in {frame.f_code.co_name}"
        owner = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if owner == package or not file.startswith((*_INSTALLED, "<")):
            return place
        others = others or place
    return defined or others
