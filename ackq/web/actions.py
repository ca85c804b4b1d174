"""What the page can do if it may operate: `Actions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ackq.errors import EXPECTED, ConfigurationError, QueueNotFound, redact
from ackq.ops import dead_letters
from ackq.ops.dead_letters import MAX_READ, every
from ackq.ops.kinds import kind_for, only_part, opened
from ackq.ops.kinds.kind import Opened, Part, Redis, Verb
from ackq.ops.kinds.lists import LIST
from ackq.ops.operation_log import OperationLog
from ackq.ops.workers import send_order, workers
from ackq.queue.registry import Order
from ackq.topic.client import Topic
from ackq.web import format, message_actions, queue_details
from ackq.web.jobs import Job, Jobs, Step
from ackq.web.message_actions import MessageActions, message_of
from ackq.web.requests import Ask, Preview, short

#: What a kind of queue has to do for each action.
NEEDED: dict[str, Verb] = {
    "pause": "pause",
    "resume": "pause",
    "redrive": "dead",
    "drop": "dead",
    "run_now": "run_now",
    "cancel": "run_now",
    "cancel_running": "cancel",
    "resume_group": "groups",
    "pause_schedule": "schedules",
    "resume_schedule": "schedules",
    "remove_schedule": "schedules",
    "seek": "seek",
    "quiet_worker": "workers",
    "resume_worker": "workers",
    "stop_worker": "workers",
    "stop_job": "dead",
}
ORDERS: dict[str, Order] = {
    "quiet_worker": "quiet",
    "resume_worker": "resume",
    "stop_worker": "stop",
}
#: The method of `ackq.queue.schedules_client.Schedules` for each action, and the result.
SCHEDULES = {
    "pause_schedule": ("pause", "paused"),
    "resume_schedule": ("resume", "resumed"),
    "remove_schedule": ("remove", "removed"),
}


class Actions:
    """Performs what people ask for, and records it. Safe to share between threads."""

    def __init__(self, client: Redis, log: OperationLog, jobs: Jobs) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or a client of its cluster.
            log: where every action is recorded before it begins, and with its result.
            jobs: run what may affect many messages.
        """
        self._client = client
        self._log = log
        self._jobs = jobs
        self._messages = MessageActions(client)

    def preview(self, ask: Ask) -> Preview:
        """Return what would happen. Nothing is changed.

        Raises:
            ConfigurationError: there is no such action, or it has no preview.
        """
        check(ask)
        if ask.action in ("redrive", "drop"):
            return self._preview_dead(ask)
        if ask.action == "seek":
            return self._preview_seek(ask)
        if ask.action in ("cancel", "cancel_running"):
            return self._messages.preview_cancel(ask, ask.action == "cancel_running")
        if ask.action == "remove_schedule":
            return Preview(
                ask,
                "Remove a schedule",
                f"Workers push nothing more for the schedule {short(ask.schedule)} of"
                f" {short(ask.name)}. Messages that were pushed stay.",
                "It cannot be restored; to stop it for a while, pause it.",
            )
        if ask.action == "resume_group":
            return Preview(
                ask,
                "Resume a group",
                f"The group {short(ask.group)} of {short(ask.name)} goes on with its next message,"
                " without a pause or the dead letters that stop it. These stay. To keep the order,"
                " redrive them instead. If a unique message with the id of one is in the queue,"
                " only ackq dead redrive --force redrives it.",
                "If they are redriven later, they come behind the other messages of the group.",
            )
        if ask.action == "stop_worker":
            return Preview(
                ask,
                "Stop a worker",
                f"The worker {short(ask.worker)} finishes the"
                " messages it works on, within its grace, and ends, as after SIGTERM.",
                "ackq work does not start it again.",
            )
        raise ConfigurationError(f"{ask.action} needs no preview")

    def perform(self, who: str, ask: Ask) -> str:
        """Do it, and return the entry of the log that has its result, or that it has begun.

        Raises:
            ConfigurationError: there is no such action, or it is impossible.
            AckqError, RedisError: it failed, or could not be recorded and was not begun.
        """
        check(ask)
        if ask.action in ("redrive", "drop"):
            job = self._start(who, ask)
            return job.ended or job.begun
        if ask.action == "stop_job":
            return self._stop(who, ask)
        what, act = self._prepared(ask)
        begun = self._log.begin(who, what, ask.kind, ask.name)
        try:
            result = act()
        except EXPECTED as error:
            self._log.end(begun, f"failed: {redact(str(error)) or type(error).__name__}")
            raise
        return self._log.end(begun, result)

    def _prepared(self, ask: Ask) -> tuple[str, Callable[[], str]]:
        """Return an action as a sentence, and what does it and returns its result."""
        if ask.action == "pause":
            return "Pause the queue", lambda: self._set_paused(ask, True)
        if ask.action == "resume":
            return "Resume the queue", lambda: self._set_paused(ask, False)
        if ask.action == "run_now":
            what = f"Make message {message_of(ask)} ready now"
            return what, lambda: self._messages.run_now(ask)
        if ask.action in ("cancel", "cancel_running"):
            running = ask.action == "cancel_running"
            what = f"Cancel{' running' if running else ''} message {message_of(ask)}"
            return what, lambda: self._messages.cancel(ask, running)
        if ask.action == "resume_group":
            return f"Resume group {short(ask.group)}", lambda: self._resume_group(ask)
        if ask.schedule:
            verb, done = SCHEDULES[ask.action]
            what = f"{verb.capitalize()} schedule {short(ask.schedule)}"
            return what, lambda: self._schedule(ask, verb, done)
        if ask.action == "seek":
            to = ask.to if ask.to in ("oldest", "end") else format.count(target_of(ask.to))
            return f"Move consumer {short(ask.consumer)} to {to}", lambda: self._seek(ask)
        order = ORDERS[ask.action]
        return f"{order.capitalize()} worker {short(ask.worker)}", lambda: self._order(ask, order)

    def _schedule(self, ask: Ask, verb: str, done: str) -> str:
        with opened(self._client, ask.kind, ask.name, "schedules") as queue:
            existed = getattr(queue.client.schedules, verb)(ask.schedule)
        return done if existed else "nothing: the schedule no longer exists"

    def _resume_group(self, ask: Ask) -> str:
        with opened(self._client, ask.kind, ask.name, "groups") as queue:
            count = queue.client.resume_group(ask.group)
        return "goes on" if count else "nothing: it is not stopped"

    def _set_paused(self, ask: Ask, paused: bool) -> str:
        with opened(self._client, ask.kind, ask.name, "pause") as queue:
            if paused:
                self._check_known(queue)
                queue.client.pause()
            else:
                queue.client.resume()
        return "paused" if paused else "resumed"

    def _check_known(self, queue: Opened) -> None:
        """Raise an error for a list that nobody uses: its name may be mistyped."""
        if queue.kind is not LIST or queue_details.has_traces(queue.kind.stats(queue.client)):
            return
        if not queue_details.workers_of(self._client, queue.name):
            raise QueueNotFound(
                f"{queue.name!r} has no messages and no workers: the name may be wrong. To pause it"
                " anyway, use ackq pause"
            )

    def _seek(self, ask: Ask) -> str:
        to = ask.to
        with Topic(self._client, ask.name) as topic:
            if to == "oldest":
                topic.seek(ask.consumer, "oldest")
            else:
                topic.seek(ask.consumer, "end" if to == "end" else target_of(to))
            position = topic.position(ask.consumer)
        return f"the next message is {format.count((position or 0) + 1)}"

    def _order(self, ask: Ask, order: Order) -> str:
        node = queue_details.one_node(self._client)
        ordered = [each for each in workers(node, [ask.name]) if each.id == ask.worker]
        listed = send_order(node, order, ordered)
        return "ordered: it is done with its next heartbeat" if listed else "nothing: it has ended"

    def _preview_seek(self, ask: Ask) -> Preview:
        with Topic(self._client, ask.name) as topic:
            position, newest = topic.position(ask.consumer), topic.newest()
            oldest = topic.oldest() or newest + 1
        if position is None:
            raise ConfigurationError(f"the consumer {ask.consumer!r} is not subscribed")
        to = {"oldest": oldest, "end": newest + 1}.get(ask.to) or target_of(ask.to)
        text = (
            f"The next message for consumer {short(ask.consumer)} is then"
            f" {format.count(to)}, not {format.count(position + 1)}. "
        )
        if to <= position:
            text += f"{format.messages(position + 1 - to)} are delivered to it again."
        elif to > position + 1:
            text += f"{format.messages(to - position - 1)} are not delivered to it."
        return Preview(
            ask,
            "Move a consumer",
            text,
            "Leases of its readers end: what they read is not committed.",
        )

    def _preview_dead(self, ask: Ask) -> Preview:
        size, newest = dead_letters.newest(self._client, ask.kind, ask.name)
        verb = "Redrive" if ask.action == "redrive" else "Drop"
        becomes = "become ready again" if ask.action == "redrive" else "are deleted"
        warning = "" if ask.action == "redrive" else "They cannot be restored."
        partly = False
        if ask.entries:
            count = len(ask.entries)
            text = f"The {dead(count)} that you chose {becomes}."
        elif not chosen_by(ask):
            count = size
            text = f"All {dead(count)} of {short(ask.name)} {becomes}."
        else:
            with opened(self._client, ask.kind, ask.name, "dead") as queue:
                only_part(queue)
            chosen = (ask.kind, ask.name, ask.cause, ask.task)
            count, read = dead_letters.count_with(self._client, *chosen)
            partly = read < size
            text = (
                f"{'At least ' if partly else ''}{dead(count)} of {short(ask.name)} with"
                f" {chosen_by(ask)} {becomes}."
            )
            if partly:
                text += (
                    f" They were counted among the newest {format.count(read)} of"
                    f" {format.count(size)}; the others are searched, too."
                )
        return Preview(
            replace(ask, until=newest),
            f"{verb} dead letters",
            text,
            warning,
            count,
            partly,
            not ask.entries,
        )

    def _start(self, who: str, ask: Ask) -> Job:
        size, newest = dead_letters.newest(self._client, ask.kind, ask.name)
        total = len(ask.entries) or size
        ask = replace(ask, until=ask.until or newest)
        if ask.entries:
            which = dead(total)
        elif not chosen_by(ask):
            which = "all dead letters"
        else:
            which = f"dead letters with {chosen_by(ask)}"
        verb, done = ("Redrive", "redriven") if ask.action == "redrive" else ("Drop", "dropped")
        return self._jobs.start(
            who,
            f"{verb} {which}",
            done,
            ask.kind,
            ask.name,
            total,
            ask.pace,
            lambda most: self._steps(ask, most),
            chosen=bool(ask.entries),
        )

    def _steps(self, ask: Ask, most: int) -> Iterator[Step]:
        with opened(self._client, ask.kind, ask.name, "dead") as queue:
            part = only_part(queue)
            act = _redrive if ask.action == "redrive" else _drop
            if ask.entries:
                chosen = iter([(each, True) for each in ask.entries])
            else:
                chosen = _chosen(part, ask)
            looked, batch = 0, list[str]()
            for entry, wanted in chosen:
                looked += 1
                batch += [entry] * wanted
                if len(batch) >= most or looked >= MAX_READ:
                    yield Step(looked, act(part, batch) if batch else 0)
                    looked, batch = 0, []
            if looked:
                yield Step(looked, act(part, batch) if batch else 0)

    def _stop(self, who: str, ask: Ask) -> str:
        job = self._jobs.find(ask.job)
        if job is not None:
            self._jobs.stop(job, who)
            return job.ended or job.begun
        if not any(other.entry.id == ask.job and other.alive for other in self._log.running()):
            raise ConfigurationError("that operation has ended")
        # Another page runs it, and reads this within a few seconds.
        self._log.ask_to_stop(ask.job, who)
        return ask.job


def check(ask: Ask) -> None:
    """Raise an error if an action does not exist or cannot be done to this kind of queue.

    Raises:
        ConfigurationError: it cannot.
    """
    if ask.action not in NEEDED:
        raise ConfigurationError("there is no such operation")
    kind_for(NEEDED[ask.action], ask.kind)
    if ask.action in ("run_now", "cancel", "cancel_running"):
        message_actions.check(ask)
    if NEEDED[ask.action] == "schedules" and not ask.schedule:
        raise ConfigurationError("name a schedule")
    if NEEDED[ask.action] == "groups" and not ask.group:
        raise ConfigurationError("name a group")


def target_of(text: str) -> int:
    """Return the index that a consumer is moved to.

    Raises:
        ConfigurationError: it is not one.
    """
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 17 and int(text)):
        raise ConfigurationError("an index of a message is a number from 1, or oldest, or end")
    return int(text)


def chosen_by(ask: Ask) -> str:
    """Return which dead letters are meant, such as “the cause … and the task …”; empty for all."""
    chosen = [f"the cause “{short(ask.cause)}”"] if ask.cause is not None else []
    if ask.task is not None:
        chosen.append(f"the task “{short(ask.task)}”" if ask.task else "no task")
    return " and ".join(chosen)


def dead(number: int) -> str:
    """Return a number of dead letters."""
    return f"{format.count(number)} dead letter{'' if number == 1 else 's'}"


def _redrive(part: Part, entries: Sequence[str]) -> int:
    return part.redrive(entries=entries)


def _drop(part: Part, entries: Sequence[str]) -> int:
    return part.drop_dead_letters(*entries)


def _chosen(part: Part, ask: Ask) -> Iterator[tuple[str, bool]]:
    """Yield the entries that were there at the preview, and whether each has the cause."""
    for letter in every(part):
        if dead_letters.is_after(letter.entry, ask.until):
            return
        yield letter.entry, dead_letters.has_cause(letter, ask.cause, ask.task)
