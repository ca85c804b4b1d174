"""Which names queues, topics and groups may have, and what ackq appends to them."""

from __future__ import annotations

import re

from ackq.errors import QueueNameError

#: What ackq appends to a queue's name for each side key. BACKUP and CONTEXT are the article's.
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
    "COUNTERS",
    "HELDROWS",
    "COMMITS",
)


#: Markers of idempotent pushes live at ``<name>DEDUP:<marker>``.
DEDUP = "DEDUP:"


#: Claims live at ``<name>CLAIM:<group>:<batch>``, what is known of a group at
#: ``<name>CLAIMS:<group>``.
CLAIM, CLAIMS = "CLAIM:", "CLAIMS:"


#: What a batch writes lies at ``<name>STAGED:<writer>:<batch>:<task>`` until it is committed; the
#: names of a batch's lists at ``<name>STAGING:<writer>:<batch>``.
STAGED, STAGING = "STAGED:", "STAGING:"


#: What follows the name of a staged list whose messages are for later.
LATER = ":delayed"


#: Rows of a batch that a pipeline rejected are remembered at ``<name>REJECTED:<query>``.
REJECTED = "REJECTED:"


#: What workers append: the shared rate limit, and the ticks of schedules. They hold no message.
RATELIMIT, TICKS = "RATELIMIT", "TICKS"


#: Longest name in bytes, so that every key stays short enough to read in a log.
NAME_LIMIT = 200


_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f*?\[\]\\]")


_GROUP = re.compile(rf"(?:(?![*?\[\]\\{{}}])[!-~]){{1,{NAME_LIMIT}}}")


_HASH_TAG = re.compile(r"\{[^{}]+\}")


def check_name(name: str) -> None:
    """Refuse a queue name that Redis, an ACL pattern or a side key would misread.

    Raises:
        QueueNameError: empty, over 200 bytes, with control characters or one of ``*?[]\\``,
            with unbalanced braces, or ending like a side key of another queue.
    """
    problem = _problem_of(name)
    if problem:
        raise QueueNameError(f"queue name {name!r} {problem}; choose another name")


def _problem_of(name: str) -> str | None:
    if not isinstance(name, str) or not name:
        return "must be a non-empty string"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if size > NAME_LIMIT:
        return f"is {size} bytes long, over the limit of {NAME_LIMIT}"
    if found := _FORBIDDEN.search(name):
        return f"contains {found[0]!r}, which Redis patterns or terminals misread"
    if name.count("{") != name.count("}") or (("{" in name) and not _HASH_TAG.search(name)):
        return "has braces that do not form a hash tag such as {jobs}"
    for suffix in (*SUFFIXES, RATELIMIT, TICKS):
        if name.endswith(suffix):
            return f"ends in {suffix}, so it would collide with a side key of another queue"
    for prefix in (DEDUP, REJECTED, CLAIM, CLAIMS, STAGED, STAGING):
        if prefix in name:
            return f"contains {prefix}, so it would collide with a side key of another queue"
    return None


def check_group(group: str) -> None:
    """Refuse a name of a group of claims that Redis, an ACL pattern or a terminal would misread.

    Raises:
        QueueNameError: not 1 to 200 printable ASCII characters, or a space, a brace or one of
            ``*?[]\\`` among them.
    """
    if not isinstance(group, str) or not _GROUP.fullmatch(group):
        raise QueueNameError(
            f"group {group!r} is not 1 to {NAME_LIMIT} ASCII letters, digits or marks without"
            " spaces, braces and *?[]\\; choose another name"
        )


def has_hash_tag(name: str) -> bool:
    """Return whether every key of the queue shares one cluster slot with the others."""
    return bool(_HASH_TAG.search(name)) and name.index("{") < name.index("}")
