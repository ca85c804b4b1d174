"""Judge what was seen of a list, and say what to do to move it to ackq."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ackq.config import QueueConfig
from ackq.core.names import has_hash_tag
from ackq.core.server import is_cluster
from ackq.errors import QueueNameError
from ackq.ops.diagnosis import Finding, Verdict, judge_server
from ackq.ops.survey import Survey
from ackq.ops.survey.bodies import Sample
from ackq.ops.survey.clients import HIDDEN, MOVES, PUSHES, TAKES, Users
from ackq.ops.survey.edges import End, Traffic
from ackq.queue.keys import QueueKeys
from ackq.queue.record import in_words


@dataclass(frozen=True, slots=True)
class Advice:
    """The findings about a list, and the steps that move it to ackq.

    ``pushed`` and ``taken`` are the ends where messages are pushed and taken: "left", "right",
    "both", or None if that could not be seen.
    """

    findings: tuple[Finding, ...]
    steps: tuple[str, ...]
    pushed: str | None
    taken: str | None

    @property
    def sound(self) -> bool:
        """Whether nothing is in the way; there may be warnings."""
        return all(finding.verdict != "problem" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends where something happens, and how that is known."""

    name: str | None
    text: str


def advise(survey: Survey) -> Advice:
    """Return the findings and the steps for a list."""
    pushed = _ends(survey, "pushed", PUSHES)
    taken = _ends(survey, "taken", TAKES | {"rpoplpush": "right", "brpoplpush": "right"})
    findings = [_list(survey), *_name(survey)]
    if survey.kind in ("list", "none"):
        findings += [
            _flow("pushes", pushed, survey),
            _flow("takes", taken, survey),
            *_clients(survey),
            *_bodies(survey.sample),
            *_beside(survey),
        ]
    findings += judge_server(survey.facts)
    if survey.unseen:
        findings.append(
            Finding("not seen", "unknown", "this user may not use: " + ", ".join(survey.unseen))
        )
    steps = _steps(survey, findings, pushed.name, taken.name)
    return Advice(tuple(findings), tuple(steps), pushed.name, taken.name)


# --- what was seen ----------------------------------------------------------------


def _list(survey: Survey) -> Finding:
    if survey.kind is None:
        return Finding("list", "unknown", "this user may not look at it (TYPE)")
    if survey.kind == "none":
        return Finding(
            "list",
            "unknown",
            "there is no such key now: every message was taken, or the name is another one",
        )
    if survey.kind != "list":
        return Finding("list", "problem", f"the key is a {survey.kind}, not a list")
    parts = []
    if survey.traffic is not None:
        first, last = survey.traffic.lengths
        rate = (last - first) / survey.traffic.seconds if survey.traffic.seconds else 0.0
        parts.append(f"{last:,} messages" + (f", {rate:+,.1f} a second" if rate else ""))
    if survey.memory is not None:
        parts.append(f"about {_size(survey.memory)}")
    if survey.idle is not None and survey.idle > 60:
        parts.append(f"nobody had used it for {survey.idle:,} s")
    if survey.expires_in is not None:
        parts.append(
            f"Redis deletes it with every message in {survey.expires_in:,.0f} s, unless"
            " you PERSIST it"
        )
        return Finding("list", "problem", "; ".join(parts))
    return Finding("list", "ok", "; ".join(parts) or "a list")


def _name(survey: Survey) -> list[Finding]:
    try:
        QueueKeys.of(survey.name)
    except QueueNameError as error:
        return [Finding("name", "problem", str(error))]
    if is_cluster(survey.facts.info) and not has_hash_tag(survey.name):
        return [
            Finding(
                "name",
                "problem",
                "in a cluster, all keys of a queue share a slot: its"
                f" name must have a hash tag, such as {{{survey.name}}}",
            )
        ]
    return []


def _ends(survey: Survey, what: str, commands: Mapping[str, str]) -> Ends:
    if survey.traffic is not None:
        ends: dict[str, End] = {"left": survey.traffic.left, "right": survey.traffic.right}
        counts = {name: getattr(end, what) for name, end in ends.items()}
        seen = {name: count for name, count in counts.items() if count}
        if seen:
            counted = " and ".join(f"{count:,} on the {name}" for name, count in seen.items())
            return Ends(_both(seen), f"{counted}, seen in {survey.traffic.seconds:.1f} s")
    used = {*(survey.calls or {}), *(survey.clients or {})}
    by = [name for name in commands if name in used]
    if not by:
        return Ends(None, "")
    ends_of = {commands[name] for name in by}
    where = "at both ends" if len(ends_of) > 1 else f"on the {min(ends_of)}"
    return Ends(_both(ends_of), f"probably {where}: clients of this server use {', '.join(by)}")


def _both(ends: Iterable[str]) -> str:
    used = set(ends)
    return "both" if len(used) > 1 else used.pop()


def _flow(check: str, ends: Ends, survey: Survey) -> Finding:
    if ends.name is None:
        return Finding(check, "unknown", _why_unclear(survey.traffic))
    verdict: Verdict = "warning" if ends.name == "both" else "ok"
    return Finding(check, verdict, ends.text)


def _why_unclear(traffic: Traffic | None) -> str:
    if traffic is None or not traffic.read:
        return "the ends could not be watched"
    if traffic.left.unclear or traffic.right.unclear:
        return "the list changed, but its ends cannot tell how: it runs empty, or bodies are equal"
    return f"none seen in {traffic.seconds:.1f} s"


def _clients(survey: Survey) -> list[Finding]:
    if not survey.clients and not survey.calls:
        return []
    parts = [_users(name, users) for name, users in sorted((survey.clients or {}).items())]
    calls = [f"{count:,} {name}" for name, count in (survey.calls or {}).items()]
    if calls:
        parts.append(f"meanwhile on the whole server: {', '.join(calls)}")
    return [Finding("clients", "ok", "; ".join(parts) + ". They may use other lists")]


def _users(command: str, users: Users) -> str:
    text = f"{command}: {len(users.ids):,}"
    if users.blocked:
        text += f", {len(users.blocked):,} of them waiting"
    where = ", ".join([*users.addresses, *(repr(name) for name in users.names)])
    return f"{text} ({where})" if where else text


def _bodies(sample: Sample | None) -> list[Finding]:
    if sample is None or not sample.read:
        return []
    findings = []
    text = f"{sample.read:,} looked at, {_size(sample.largest)} at most"
    if sample.system:
        findings.append(
            Finding(
                "bodies",
                "problem",
                f"{text}; they look like {sample.system}'s, whose workers have their own protocol",
            )
        )
    elif sample.over_limit:
        findings.append(
            Finding(
                "bodies",
                "warning",
                f"{text}; {sample.over_limit:,} exceed the default max_body_bytes of 1 MiB",
            )
        )
    else:
        findings.append(Finding("bodies", "ok", text))
    text = f"{sample.with_id:,} of {sample.read:,} are JSON objects with an id"
    if sample.with_id < sample.read and sample.other_id:
        text += f"; the others have {sample.other_id!r} instead"
    findings.append(Finding("ids", "ok", text))
    if sample.repeated_ids or sample.repeated_bodies:
        repeated = f"{sample.repeated_ids:,} ids and {sample.repeated_bodies:,} bodies"
        findings.append(Finding("duplicates", "warning", f"{repeated} repeat an earlier one"))
    return findings


def _beside(survey: Survey) -> list[Finding]:
    findings = []
    if survey.side_keys:
        wrong = _wrong_types(survey)
        names = ", ".join(_text(key) for key in survey.side_keys)
        if wrong:
            findings.append(Finding("keys of ackq", "problem", f"{wrong}: rename it"))
        elif survey.stats is not None:
            now = survey.stats
            known = survey.recorded
            end = ", popped from the left" if "pop_from" in known else ""
            end += f", with {in_words(known)}" if "groups" in known else ""
            findings.append(
                Finding(
                    "keys of ackq",
                    "ok",
                    f"{names}: {now.in_flight:,} in flight,"
                    f" {now.delayed:,} delayed, {now.dead:,} dead{end}",
                )
            )
        else:
            findings.append(Finding("keys of ackq", "ok", names))
    elif survey.side_keys is not None:
        findings.append(Finding("keys of ackq", "ok", "none: no consumer of ackq holds a message"))
    if survey.search is not None:
        findings.append(_processing(survey))
    return findings


def _wrong_types(survey: Survey) -> str:
    config = QueueConfig(**survey.recorded)
    types = QueueKeys.of(survey.name, config.pop_from, config.grouped).types()
    return "; ".join(
        f"{_text(key)} is a {kind}, not a {types[key]}"
        for key, kind in (survey.side_keys or {}).items()
        if key in types and kind != types[key]
    )


def _processing(survey: Survey) -> Finding:
    search = survey.search
    assert search is not None
    text = ", ".join(
        _text(name) + (f" ({count:,})" if count is not None else "")
        for name, count in search.lists.items()
    )
    if not search.complete:
        text = f"{text or 'none'}; searched about {search.keys:,} keys, not all"
    verdict: Verdict = "warning" if search.lists else "ok"
    return Finding("processing lists", verdict, text or "none")


# --- what to do -------------------------------------------------------------------


def _steps(
    survey: Survey, findings: list[Finding], pushed: str | None, taken: str | None
) -> list[str]:
    if survey.sample is not None and survey.sample.system:
        return [
            f"Leave this list to {survey.sample.system}. ackq would deliver its messages, but"
            " its own workers could not settle them."
        ]
    problems = [finding.check for finding in findings if finding.verdict == "problem"]
    steps = [f"Solve first: {', '.join(problems)}."] if problems else []
    if survey.kind not in ("list", "none", None) or "name" in problems:
        return steps
    queue = _argument(survey.name.encode())
    if survey.stats is not None and (leased := survey.stats.in_flight + survey.stats.expired):
        steps.append(
            f"{leased:,} messages are in work, or were when their consumer died. If the article's"
            " own scripts took them, stop every consumer that runs these scripts before you start"
            " one of ackq. Never run both kinds at once: messages are done twice, and those with"
            " equal ids are lost."
        )
    steps += _consumer_steps(pushed, taken)
    steps += _body_steps(survey.sample)
    lists = survey.search.lists if survey.search else {}
    if lists or _uses(survey, MOVES):
        names = " ".join(_argument(name) for name in lists) or "LIST..."
        steps.append(
            "Once every consumer that moves messages into a processing list has stopped,"
            f" put back what it left there: ackq recover {queue} {names}"
            " --dry-run"
        )
    if _uses(survey, HIDDEN):
        steps.append(
            "Some clients use scripts, transactions or LMPOP, which hide what they do to"
            " which list. Search their code for the name of this list."
        )
    steps.append(
        "Replace one consumer, kill it in the middle of a message, and see the message"
        f" return: ackq stats {queue}. Then: ackq audit {queue}"
    )
    return steps


def _consumer_steps(pushed: str | None, taken: str | None) -> list[str]:
    if pushed is None and taken is None:
        return [
            "Watch for longer, or at a busier time, to see at which ends the list is used: --for 60"
        ]
    if pushed == taken and pushed in ("left", "right"):
        return [
            "The list is a stack: the newest message is taken first. ackq can take from either"
            " end. Check whether a consumer depends on the order."
        ]
    if "both" in (pushed, taken):
        return [
            "Both ends are in use. Find out which producers or consumers differ: messages that"
            " are pushed at the end where ackq takes are delivered first."
        ]
    steps = [
        "In each consumer, replace redis.Redis() by ackq.dropin.Redis(redis.Redis(), hold=0); leave"
        " the producers as they are. hold=0 is for loops that finish each message before they pop"
        " the next one."
    ]
    if taken == "left" or (taken is None and pushed == "right"):
        steps.append(
            'This list is popped from the left: where you use ackq.Queue, pass pop_from="left".'
        )
    return steps


def _body_steps(sample: Sample | None) -> list[str]:
    if sample is None:
        return []
    steps = []
    if sample.over_limit:
        steps.append(
            "Set max_body_bytes= to more than the longest body; longer messages become"
            " dead letters. The drop-in needs no setting."
        )
    if sample.with_id < sample.read:
        steps.append(
            "Messages without an id are protected like all others. To find one by name,"
            " let producers push JSON objects with an id."
        )
    if sample.repeated_ids:
        steps.append(
            "Ids repeat. Every such message is delivered. To store each id only once,"
            " push with dedup=."
        )
    return steps


def _uses(survey: Survey, commands: Iterable[str]) -> bool:
    used = {*(survey.calls or {}), *(survey.clients or {})}
    return not used.isdisjoint(commands)


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:,.1f} KiB" if count < 2**20 else f"{count / 2**20:,.1f} MiB"


def _argument(key: bytes) -> str:
    """Return a name as it is typed in a shell, with escapes for what a terminal cannot show."""
    text = _text(key)
    if text.isprintable() and text.encode() == key:
        return shlex.quote(text)
    quoted = {0x27: r"\'", 0x5C: r"\\"}
    shown = (quoted.get(byte, chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in key)
    return f"$'{''.join(shown)}'"


def _text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")
