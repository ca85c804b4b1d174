"""What a person asks the page to do: `Ask`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlencode

from ackq.core.inspection_results import check_entry
from ackq.errors import ConfigurationError

#: Messages per second that can be chosen for what may affect many.
PACES = (1, 10, 100, 1000, 10_000)
#: The pace unless another is chosen.
PACE = 100
#: Most dead letters that can be chosen one by one.
MAX_ENTRIES = 200
#: Characters of a text that is quoted in a sentence.
SHOWN = 80


@dataclass(frozen=True, slots=True)
class Ask:
    """An operation and what it is to affect, as links and forms pass it on."""

    action: str
    kind: str = "list"
    name: str = ""
    #: Dead letters: these; or all with a cause, of a task; or all.
    entries: tuple[str, ...] = ()
    cause: str | None = None
    task: str | None = None
    #: The newest dead letter that was there when somebody looked.
    until: str = ""
    #: A delayed message: the key in a delay queue, `PeekedMessage.entry` in a list queue.
    key: str = ""
    #: All messages of a list queue with this id, wherever they are.
    id: str = ""
    #: A group of a list queue.
    group: str = ""
    #: The name of a stored schedule.
    schedule: str = ""
    #: A consumer of a topic, and where to move it.
    consumer: str = ""
    to: str = ""
    #: The id of a worker.
    worker: str = ""
    #: What runs in the background.
    job: str = ""
    pace: int = PACE

    def query(self) -> str:
        """Return a query string of ASCII, from which `read` makes this again."""
        chosen = {
            "entry" if field.name == "entries" else field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) or (value == "" and field.default is None)
        }
        del chosen["pace"]
        return urlencode(chosen, doseq=True, errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would do, before it is confirmed."""

    ask: Ask
    title: str
    #: What would happen.
    text: str
    #: What cannot be taken back; may be empty.
    warning: str = ""
    #: How many messages it affects; None: not counted.
    count: int | None = None
    #: Whether not all messages were counted, so it may affect more.
    partly: bool = False
    #: Whether a pace can be chosen.
    paced: bool = False


def read(form: Mapping[str, Sequence[str]]) -> Ask:
    """Return what the fields of a form or of a link ask for.

    Raises:
        ConfigurationError: an entry or a pace is impossible, or there are too many entries.
    """

    def one(field: str) -> str:
        return form.get(field, [""])[-1]

    entries = tuple(dict.fromkeys(form.get("entry", ())))
    pace = one("pace") or str(PACE)
    if len(entries) > MAX_ENTRIES:
        raise ConfigurationError(f"at most {MAX_ENTRIES} dead letters can be chosen one by one")
    for each in (*entries, *([one("until")] if one("until") else [])):
        check_entry(each)
    if pace not in map(str, PACES):
        raise ConfigurationError(f"the pace is one of {', '.join(map(str, PACES))} per second")
    given: dict[str, Any] = {field.name: one(field.name) for field in fields(Ask)}
    given |= {field: given[field] if field in form else None for field in ("cause", "task")}
    given |= {"kind": given["kind"] or "list", "entries": entries, "pace": int(pace)}
    return Ask(**given)


def short(text: str) -> str:
    """Return the beginning of a text, for a sentence."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
