"""Planted faults, each of which the checker must find: else no run of the campaign shows anything.

Some are mistakes in a script, made in a copy that all processes of the run use, or in a function of
the library. The others are saboteurs, which change the queue's keys behind its back while it works.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import operator
import random
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ackq.scripts import compose

from .workloads import WORKLOADS

NAME = "{jobs}"

Saboteur = Callable[[Any, random.Random], object]


@dataclass(frozen=True)
class Edit:
    """One change of one script."""

    script: str
    old: str
    new: str

    def make(self, folder: Path) -> None:
        path = folder / f"{self.script}.lua"
        text = compose(folder, self.script)
        assert text.count(self.old) == 1, f"{self.script}: the old text must occur once"
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True)
class Slip:
    """One change of one function of the library, or of one method: ``Class.method``."""

    module: str
    function: str
    old: str
    new: str

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Let this process make the mistake, wherever the function was imported."""
        function = operator.attrgetter(self.function)(importlib.import_module(self.module))
        text = textwrap.dedent(inspect.getsource(function))
        assert text.count(self.old) == 1, f"{self.module}: the old text must occur once"
        made = dict(function.__globals__)
        exec(compile(text.replace(self.old, self.new), self.module, "exec"), made)
        sound = function.__code__
        function.__code__ = made[function.__name__].__code__
        try:
            yield
        finally:
            function.__code__ = sound


@dataclass(frozen=True)
class Sabotage:
    """A planted fault, and the rules that it breaks: at least one must be found broken."""

    name: str
    rules: tuple[str, ...]
    how: tuple[Edit, ...] | Slip | Saboteur
    workload: str = "queue"
    #: Faults without which the mistake does not show.
    beside: tuple[str, ...] = ()


_HOLDS = "  return tonumber(score) == tonumber(receipt) or (has_extended"
_ANYBODY = "  return true or (has_extended"
#: How a dead letter stops its group.
_STOPS = "  if rules.stops and tag ~= '' then"
_DEADLINE = "local deadline = now + timeout + jitter"
#: How groups/pop and ack free a slot, and move a message to wake a consumer.
_FREES = "    add_slots(tag, -known[tag])\n"
_WAKES = "    redis.call('RPUSH', ready, body)\n"
_RECORDED = "  reply[at + 5], reply[at + 6] = key, body"
#: The path for the usual call, which the planted faults of the other path would miss.
_SHORT_PATH = "if next_body and not has_side and #expired == 0 and #next_body <= max_body then"
_NEVER = Edit("pop", _SHORT_PATH, "if false then")
DELAY_HOLDS = "and holds_lease(first, receipt, key, leases[i], scores[i])"
DELAY_ANYBODY = ""


#: Mistakes that lose messages only if the number of shards changes.
FORGOTTEN = Edit("sharded/change", "'draining', draining)", "'draining', '')")
CLOSED = Edit(
    "sharded/retire",
    "(key == notes and kind == 'hash') then\n      return 0",
    "(key == notes and kind == 'hash') then\n      redis.call('DEL', key)",
)


def _edit(name: str, *rules: str, workload: str = "queue") -> Callable[..., Sabotage]:
    return lambda *edits: Sabotage(name, rules, edits, workload)


def _late(name: str, *rules: str) -> Callable[..., Sabotage]:
    return _edit(name, *rules, workload="queue, late")


def _grouped(name: str, *rules: str) -> Callable[..., Sabotage]:
    return _edit(name, *rules, workload="queue, groups")


def _one(client: Any, key: str, draw: random.Random) -> Any:
    """Return a random member of BACKUP, or field of a hash."""
    found = client.zrange(key, 0, -1) if key.endswith("BACKUP") else client.hkeys(key)
    return draw.choice(found) if found else b"none"


def _steal(client: Any, draw: random.Random) -> None:
    client.rpop(NAME)


def _store_twice(client: Any, draw: random.Random) -> None:
    if body := client.lindex(NAME, -1):
        client.rpush(NAME, body)


def _forge(client: Any, draw: random.Random) -> None:
    client.lpush(NAME, b'{"id":"forged-%d"}' % draw.randrange(1 << 30))


def _end_a_lease(client: Any, draw: random.Random) -> None:
    client.zadd(f"{NAME}BACKUP", {_one(client, f"{NAME}BACKUP", draw): 1}, xx=True)


def _change_a_body(client: Any, draw: random.Random) -> None:
    key = f"{NAME}CONTEXT"
    if body := client.hget(key, field := _one(client, key, draw)):
        client.hset(key, field, body.replace(b"pad", b"PAD"))


def _lose_a_lease(client: Any, draw: random.Random) -> None:
    field = _one(client, f"{NAME}BACKUP", draw)
    client.zrem(f"{NAME}BACKUP", field)
    client.hdel(f"{NAME}CONTEXT", field)


def _lose_all_leases(client: Any, draw: random.Random) -> None:
    client.delete(f"{NAME}BACKUP", f"{NAME}CONTEXT")


def _wedge(client: Any, draw: random.Random) -> None:
    client.zadd(f"{NAME}BACKUP", {_one(client, f"{NAME}BACKUP", draw): 2**52}, xx=True)


def _forget_counts(client: Any, draw: random.Random) -> None:
    client.delete(f"{NAME}RECEIVES")


def _hurry(client: Any, draw: random.Random) -> None:
    for key in client.zrange(f"{NAME}DELAYED", 0, -1):
        client.zadd(f"{NAME}DELAYED", {key: 1}, xx=True)


def _leave_a_body(client: Any, draw: random.Random) -> None:
    client.hset(f"{NAME}CONTEXT", "orphan", "{}")


def _turn_around(client: Any, draw: random.Random) -> None:
    for _ in range(client.llen(NAME) // 2):
        client.lmove(NAME, NAME, "RIGHT", "LEFT")


def _deliver_again(client: Any, draw: random.Random) -> None:
    """Put a message in flight back on the list as well."""
    if body := client.hget(f"{NAME}CONTEXT", _one(client, f"{NAME}CONTEXT", draw)):
        client.rpush(NAME, body)


def _truncate(client: Any, draw: random.Random) -> None:
    client.ltrim(NAME, 0, -4)


def _steal_parked(client: Any, draw: random.Random) -> None:
    if parked := client.zrange(f"{NAME}GROUPS:PARKED", 0, -1):
        client.zrem(f"{NAME}GROUPS:PARKED", draw.choice(parked))


def _forget_slots(client: Any, draw: random.Random) -> None:
    client.delete(f"{NAME}GROUPS:BUSY")


SABOTAGES: tuple[Sabotage, ...] = (
    # --- scripts
    _late("ack without a fence", "fencing", "acked twice", "lost")(Edit("ack", _HOLDS, _ANYBODY)),
    _late("fused ack without a fence", "fencing", "acked twice", "lost")(
        Edit("pop", _HOLDS, _ANYBODY)
    ),
    _late("nack without a fence", "fencing", "lease")(Edit("nack", _HOLDS, _ANYBODY)),
    _late("extend without a fence", "fencing")(Edit("extend", _HOLDS, _ANYBODY)),
    _edit("leases of a quarter", "lease")(
        Edit("pop", _DEADLINE, "local deadline = now + timeout / 4 + jitter")
    ),
    _edit("a lease is taken before its end", "lease")(
        Edit(
            "pop",
            "local expired = redis.call('ZCOUNT', backup, '-inf', now_text) > 0\n"
            "  and redis.call('ZRANGEBYSCORE', backup, '-inf', now_text, 'LIMIT', '0',",
            "local expired = redis.call('ZRANGEBYSCORE', backup, '-inf', '+inf', 'LIMIT', '0',",
        )
    ),
    _edit("pop removes one message too many", "lost")(
        _NEVER,
        Edit(
            "pop",
            "from_left and used or '0', from_left and '-1' or -used - 1)",
            "from_left and used or '0', from_left and '-1' or -used - 2)",
        ),
    ),
    _edit("pop leaves a message on the list", "acked twice", "count", "lease", "after ack")(
        _NEVER,
        Edit(
            "pop",
            "from_left and used or '0', from_left and '-1' or -used - 1)",
            # Not of one message, which would be read again and again.
            "from_left and used or '0', from_left and '-1' or -math.max(used, 2))",
        ),
    ),
    _edit("pop records no body", "lost", "dead")(
        Edit("pop", "    redis.call('HSET', context, unpack(reply, before + 1))", "")
    ),
    _edit("pop changes a body", "changed")(_NEVER, Edit("pop", _RECORDED, f"{_RECORDED} .. ' '")),
    _edit("the receive count stays", "count")(
        Edit(
            "pop",
            "local count = 1 + (tonumber(known[i]) or absent)",
            "local count = tonumber(known[i]) or absent",
        )
    ),
    _edit("the list is read from the wrong end", "order")(
        _NEVER, Edit("pop", "take_ready(ready, from_left)", "take_ready(ready, true)")
    ),
    _edit("ack deletes nothing", "after ack", "acked twice")(
        Edit(
            "ack",
            "  redis.call('HDEL', context, unpack(done))\n"
            "  acked = batch and redis.call('ZREMRANGEBYSCORE', backup, batch, batch)\n"
            "    or redis.call('ZREM', backup, unpack(done))\n",
            "  acked = #done\n",
        )
    ),
    _edit("ack leaves the body", "audit", "stuck")(
        Edit("ack", "  redis.call('HDEL', context, unpack(done))\n", "")
    ),
    _edit("a delay is ignored", "early")(
        Edit("schedule", "due = math.min(due + now, 9007199254740991)", "due = now")
    ),
    _edit("dead one delivery late", "dead", workload="queue, dead letters")(
        Edit("nack", "count >= max_receives", "count > max_receives"),
        Edit("pop", "max_receives > 0 and count > max_receives", "count > max_receives + 1"),
    ),
    _edit("acks with a take are not counted", "totals")(
        Edit("pop", "counters, 'acked', acked)", "counters, 'acked', 0 * acked)")
    ),
    _edit("redeliveries are not counted", "totals")(
        Edit("pop", "count_up('returned', returned)", "")
    ),
    _edit("deaths are not counted", "totals", workload="queue, dead letters")(
        Edit("nack", "count_up('dead:max receives', #died - missing)", "")
    ),
    _edit("deletions of a delay queue are not counted", "totals", workload="delay queue")(
        Edit("delay/delete", "count_up(first, 'acked', deleted)", "")
    ),
    _edit("delete without a fence", "fencing", "acked twice", "lost", workload="delay queue, late")(
        Edit("delay/delete", DELAY_HOLDS, DELAY_ANYBODY)
    ),
    _edit(
        "leases of delayed messages are a quarter",
        "lease",
        "holder refused",
        workload="delay queue, late",
    )(
        Edit(
            "delay/take",
            "local deadline = now + timeout + jitter",
            "local deadline = now + timeout / 4 + jitter",
        )
    ),
    _edit("a delayed message is early", "early", workload="delay queue")(
        Edit("delay/push", "    due = now + due", "    due = now + due / 100")
    ),
    _edit("leases of a topic are a quarter", "lease", "holder refused", workload="topic")(
        Edit(
            "topic/consume", "local deadline = now + timeout", "local deadline = now + timeout / 4"
        )
    ),
    _edit("a commit skips a range in flight", "lost", "gap", workload="topic")(
        Edit(
            "topic/commit",
            "    if not freed[member] and redis.call('ZSCORE', leases, member) then",
            "    if false then",
        )
    ),
    _edit("a message of a topic is said to be at another index", "place", workload="topic")(
        Edit("topic/publish", "local index = newest + 1", "local index = newest + 2")
    ),
    _edit(
        "commit is never refused", "fencing", "acked twice", "after ack", "lost", workload="topic"
    )(
        Edit(
            "topic/commit",
            "if not is_void and not freed[given] and redis.call('ZSCORE', leases, given) then",
            "if not freed[given] then",
        )
    ),
    _edit("a received message stays visible", "lease", workload="RSMQ")(
        Edit("rsmq/receive", "    hide(id, until_text)", "    hide(id, now_text)")
    ),
    _edit("RSMQ deletes nothing", "after ack", "acked twice", workload="RSMQ")(
        Edit(
            "rsmq/delete",
            "local deleted = redis.call('ZREM', zset, unpack(ARGV, 1, looked))\n"
            "redis.call('HDEL', hash, unpack(fields))",
            "local deleted = looked",
        )
    ),
    _edit("releases of a delay queue are nacks", "totals", workload="delay queue")(
        Edit("delay/nack", "release = 'released'", "release = 'nacked'")
    ),
    _edit(
        "what is canceled deep in the list is delivered", "after ack", workload="queue, operated"
    )(Edit("pop", "elseif note and note.canceled > 0 then", "elseif false then")),
    _edit("a unique push does not look at what is in flight", "unique", workload="queue, unique")(
        Edit("push_unique", "return at.leased and 'leased' or 'free'", "return 'free'")
    ),
    _edit("the second of two equal ids replaces the first", "lost", workload="queue, equal ids")(
        _NEVER, Edit("pop", "        claimed[key] = true\n", "        key = key\n")
    ),
    *(
        Sabotage(name, ("lost",), (edit,), "sharded queue, resized", ("resize the queue",))
        for name, edit in (
            ("former shards are forgotten", FORGOTTEN),
            ("a shard is closed with its messages", CLOSED),
        )
    ),
    # --- groups
    _grouped("groups have no limit", "group order", "group limit")(
        Edit("groups/pop", "slots_of(tag) < own.limit and not has", "not has")
    ),
    _edit("groups have no rate", "group rate", workload="queue, groups, limited")(
        Edit("groups/pop", "  take_permit(tag)\n", "")
    ),
    _edit("the queue has no limit", "limit", workload="queue, groups, limited")(
        Edit("groups/pop", "math.max(0, rules.most - redis.call('ZCARD', backup))", "rules.most")
    ),
    _grouped("an ack frees no slot", "stuck")(
        Edit("groups/pop", _FREES, ""), Edit("ack", _FREES, "")
    ),
    _grouped("messages of a group are moved aside in reverse", "group order")(
        Edit("groups/pop", "'%016.0f', place)", "'%016.0f', 10000000 - place)")
    ),
    _grouped("a message that wakes a consumer is lost", "lost")(
        Edit("groups/pop", _WAKES, ""), Edit("ack", _WAKES, "")
    ),
    _grouped("a run goes on without its failed message", "group order")(
        Edit("groups/pop", "entry and body and not is_home and waits_until(key, tag)", "false")
    ),
    _grouped("a group that is free waits for its turn", "group passed over")(
        Edit("groups/pop", "woken_tag and tonumber(woken_since) <= since or", "false or")
    ),
    _edit(
        "a dead letter does not stop its group", "group order", workload="queue, groups, stopped"
    )(Edit("nack", _STOPS, "  if false then"), Edit("groups/pop", _STOPS, "  if false then")),
    # --- the library
    Sabotage(
        "a worker handles a run all at once",
        ("group order",),
        Slip(
            "ackq.worker.feed",
            "Runs.begin",
            "message.group is None or heads.setdefault(key, message) is message",
            "True",
        ),
        "worker, threads, groups, backlog",
    ),
    Sabotage(
        "a refusal of an ack that was sent again is kept quiet",
        ("silent refusal",),
        Slip(
            "ackq.core.fencing",
            "note_reply",
            "if position > 0 or not earlier:",
            "if not earlier or (position > 0 and not repeated):",
        ),
        "queue, late",
        beside=("lose a reply",),
    ),
    # --- saboteurs
    Sabotage("a message is stolen", ("lost",), _steal),
    Sabotage("the list is cut", ("lost",), _truncate),
    Sabotage("a message is stored twice", ("acked twice", "count", "lease", "rows"), _store_twice),
    Sabotage(
        "a message in flight is stored again",
        ("acked twice", "count", "lease", "after ack"),
        _deliver_again,
    ),
    Sabotage("a message is forged", ("phantom",), _forge),
    Sabotage("the list is turned around", ("order",), _turn_around),
    Sabotage("a lease is ended", ("lease", "holder refused"), _end_a_lease),
    Sabotage("a lease is lost", ("lost", "holder refused"), _lose_a_lease),
    Sabotage("all leases are lost", ("lost", "holder refused"), _lose_all_leases),
    Sabotage("a lease never ends", ("stuck", "holder refused"), _wedge),
    Sabotage("a body is changed", ("changed",), _change_a_body),
    Sabotage("the receive counts are lost", ("count",), _forget_counts),
    Sabotage("delays are over at once", ("early",), _hurry),
    Sabotage("a body is left behind", ("audit",), _leave_a_body),
    Sabotage("a parked message is stolen", ("lost",), _steal_parked, "queue, groups"),
    Sabotage("the slots of groups are lost", ("group order",), _forget_slots, "queue, groups"),
)

_OF_POP = ("pop removes one message too many", "pop changes a body")
_OF_KEYS = ("a message is stolen", "a message is forged")
_OF_ROWS = (*_OF_KEYS, "a message is stored twice")
_OF_GROUPS = (
    "groups have no limit",
    "an ack frees no slot",
    "a run goes on without its failed message",
    "a worker handles a run all at once",
)
_OF_PARKED = ("a message is forged", "a parked message is stolen", "the slots of groups are lost")
#: Planted faults of the list queue that are to be found in workloads that begin like these, too.
_ELSEWHERE = {
    "queue, groups, limited": ("groups have no limit", *_OF_PARKED),
    "queue, groups": _OF_PARKED,
    "drop-in": (*_OF_POP, *_OF_KEYS),
    "worker, threads, groups": (*_OF_GROUPS, *_OF_PARKED),
    "worker, tasks, groups": (*_OF_GROUPS, *_OF_PARKED),
    "worker, processes, groups": _OF_KEYS,
    "worker, threads": (*_OF_POP, *_OF_KEYS),
    "worker, tasks": (*_OF_POP, *_OF_KEYS),
    "worker, processes": _OF_KEYS,
    "sharded queue": (*_OF_POP, "the receive count stays"),
    "Spark, files": _OF_ROWS,
    "Spark, queue": _OF_ROWS,
    "Spark source": _OF_ROWS,
}


def suited(workload: str) -> list[Sabotage]:
    """Return the planted faults that a run of this workload includes: those of its scripts."""
    if workload == "Spark sink":
        workload = "Spark source"  # its messages are files, and its rows come late
    for other, names in _ELSEWHERE.items():
        if workload.startswith(other):
            own = [each for each in SABOTAGES if each.workload.startswith(other)]
            shared = [each for each in SABOTAGES if each.name in names and each not in own]
            planted_in = f"{other}, backlog" if f"{other}, backlog" in WORKLOADS else other
            return [replace(each, workload=planted_in) for each in shared] + own
    families = {each.workload.partition(",")[0] for each in SABOTAGES}
    family = next(each for each in families if workload.startswith(each))
    return [
        each
        for each in SABOTAGES
        if each.workload.startswith(family) and not each.workload.startswith(tuple(_ELSEWHERE))
    ]
