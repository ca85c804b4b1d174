"""The names that queues, topics and groups may have, and the suffixes of their keys."""

from __future__ import annotations

import re

from ackq.errors import QueueNameError

#: The suffixes of a queue's other keys. BACKUP and CONTEXT come from the article "Explain how redis
#: implements ack for queue messages" (2019).
SUFFIXES = (
    "BACKUP",
    "CONTEXT",
    "HANDOFF",
    "RECEIVES",
    "EXTENDED",
    "DELAYED",
    "DEAD",
    "PAUSED",
    "HELD",
    "RECORD",
    "COUNTERS",
    "HELDROWS",
    "COMMITS",
    "ERRORS",
    "NOTES",
)
#: The markers of idempotent pushes are at ``<name>DEDUP:<marker>``.
DEDUP = "DEDUP:"
#: The messages of a claim are at ``<name>CLAIM:<group>:<batch>``, the record of its group at
#: ``<name>CLAIMS:<group>``.
CLAIM, CLAIMS = "CLAIM:", "CLAIMS:"
#: The rows of a task are at ``<name>STAGED:<writer>:<batch>:<task>`` until their batch is
#: committed, and the names of the batch's lists at ``<name>STAGING:<writer>:<batch>``.
STAGED, STAGING = "STAGED:", "STAGING:"
#: The suffix of a staged list of delayed messages.
DELAYED_LIST = ":delayed"
#: The record of a batch's rejected rows is at ``<name>REJECTED:<query>``.
REJECTED = "REJECTED:"
#: The receipt of the latest take of a supervised process is at ``<name>TAKEN:<taker>``; it expires.
TAKEN = "TAKEN:"
#: Keys of workers: the shared rate limit, and the ticks of schedules. They hold no messages.
RATELIMIT, TICKS = "RATELIMIT", "TICKS"
#: The list of a queue's workers: when each was last seen, what each does, and orders for them. With
#: a colon, since the names of queues that exist may end in WORKERS.
WORKERS_SEEN, WORKERS_DOING = "WORKERS:SEEN", "WORKERS:DOING"
WORKERS_ORDERS = "WORKERS:ORDERS"
#: The schedules that are stored for a queue.
SCHEDULES = "WORKERS:SCHEDULES"
#: From which the consumers that wait are estimated. Only `pop` uses it, and it expires.
LOOKS = "WAITERS:LOOKS"
#: What happened to a queue, of any kind, is at ``<name>:history:<kind>``; it expires.
HISTORY = ":history:"
#: What a queue with groups knows of them, and the messages that it moved aside. With a colon, as
#: above.
GROUPS = tuple(
    f"GROUPS:{name}"
    for name in (
        *("BUSY", "PARKED", "TURNS", "FLIGHT", "RUNS", "WOKEN", "RATES"),
        *("ROOM", "STOPPED", "LETTERS", "LIMITS", "PAUSES", "CLOSED"),
    )
)
#: Keys of format 1, which only the doctor reads.
FORMER = ("HELD:LEFT", "GROUPS:SINCE")
#: Longest name in bytes, so that every key stays short enough to read in a log.
MAX_NAME = 200


_GLOB = re.compile(rb"([*?\[\]\\])")
_ENDS = (
    *SUFFIXES,
    RATELIMIT,
    TICKS,
    WORKERS_SEEN,
    WORKERS_DOING,
    WORKERS_ORDERS,
    SCHEDULES,
    LOOKS,
    *GROUPS,
    *FORMER,
    *(HISTORY + kind for kind in ("list", "delay", "topic", "rsmq")),
)
_PREFIXES = re.compile("|".join((DEDUP, REJECTED, CLAIM, CLAIMS, STAGED, STAGING, TAKEN)))
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f*?\[\]\\]")
_GROUP = re.compile(rf"(?:(?![*?\[\]\\{{}}])[!-~]){{1,{MAX_NAME}}}")
_HASH_TAG = re.compile(r"\{[^{}]+\}")


def check_name(name: str) -> None:
    """Raise an error for a name that would be ambiguous in a key, a pattern or a terminal.

    Raises:
        QueueNameError: not text, empty, over 200 bytes, with control characters or one of
            ``*?[]\\``, with unbalanced braces, or ending like a key of another queue.
    """
    check_text(name)
    problem = _problem_of(name)
    if problem:
        raise QueueNameError(f"queue name {name!r} {problem}; choose another name")


def check_text(name: object) -> None:
    """Raise an error for a name that is not text.

    Raises:
        QueueNameError: that is so.
    """
    if not isinstance(name, str):
        raise QueueNameError(f"the name of a queue is text, not {_described(name)}")


def is_unicode(text: str) -> bool:
    """Return whether a text can be written: one with half a surrogate pair cannot."""
    return text.encode(errors="ignore").decode() == text


def _described(name: object) -> str:
    if name is None:
        return "None"
    if isinstance(name, bytes):
        return f"bytes: pass {name.decode(errors='replace')!r}"
    # Not the object itself: a client's text may contain its password.
    return (
        f"{type(name).__name__}. The client comes first, then the name, as in Queue(client, 'jobs')"
    )


def _problem_of(name: str) -> str | None:
    if not name:
        return "is empty"
    if not is_unicode(name):
        return "is not valid Unicode"
    if (size := len(name.encode())) > MAX_NAME:
        return f"is {size} bytes long, over the limit of {MAX_NAME}"
    if matched := _FORBIDDEN.search(name):
        return f"contains {matched[0]!r}, which Redis patterns or terminals misread"
    if name.count("{") != name.count("}") or (("{" in name) and not _HASH_TAG.search(name)):
        return "has braces that do not form a hash tag such as {jobs}"
    if name.endswith(_ENDS):
        suffix = next(end for end in _ENDS if name.endswith(end))
        return f"ends in {suffix}, so it would collide with a key of another queue"
    if matched := _PREFIXES.search(name):
        return f"contains {matched[0]}, so it would collide with a key of another queue"
    return None


def check_group(group: str) -> None:
    """Raise an error for a group of claims whose name would be ambiguous in a key or a terminal.

    Raises:
        QueueNameError: not 1 to 200 printable ASCII characters, or a space, a brace or one of
            ``*?[]\\`` among them.
    """
    if not isinstance(group, str) or not _GROUP.fullmatch(group):
        raise QueueNameError(
            f"group {group!r} is not 1 to {MAX_NAME} ASCII letters, digits or marks without"
            " spaces, braces and *?[]\\; choose another name"
        )


def has_hash_tag(name: str) -> bool:
    """Return whether every key of the queue shares one cluster slot with the others."""
    return bool(_HASH_TAG.search(name)) and name.index("{") < name.index("}")


def literal(key: bytes) -> bytes:
    """Return the pattern of SCAN that matches this key alone."""
    return _GLOB.sub(rb"\\\1", key)
