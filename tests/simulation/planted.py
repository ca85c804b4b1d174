"""Planted faults, each of which the simulation must find: else its silence shows nothing."""

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from ackq import scripts
from ackq.scripts import Script
from tests.campaign.sabotage import (
    CLOSED,
    DELAY_ANYBODY,
    DELAY_HOLDS,
    FORGOTTEN,
    SABOTAGES,
    Edit,
    Sabotage,
    Slip,
)

from .products import PRODUCTS
from .run import Result, simulate
from .server import Server

#: Requests between two strikes of a saboteur.
EVERY = 10
#: Seeds among which a planted fault must be found.
SEEDS = range(6000)


def _edit(name: str, product: str, *rules: str) -> Callable[..., Sabotage]:
    return lambda *edits: Sabotage(name, rules, edits, product)


#: Where a fault of the campaign's workloads is planted; of others, in the list queue.
_PRODUCTS = {"delay queue": "DelayQueue", "topic": "Topic", "RSMQ": "RSMQ"}
_WORKLOADS = {
    "queue, equal ids": "EqualIds",
    "queue, groups": "GroupedListQueue",
    "queue, groups, limited": "GroupedListQueue",
    "queue, groups, stopped": "GroupedListQueue",
}
#: The campaign's, of the products that are simulated.
SHARED: tuple[Sabotage, ...] = tuple(
    each
    for each in SABOTAGES
    if each.workload.startswith(("queue", "delay queue", "topic", "RSMQ"))
)
OTHERS: tuple[Sabotage, ...] = (
    _edit("push stores a message twice", "ListQueue", "acked twice", "count", "lease")(
        Edit(
            "push_once",
            "redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, body)",
            "redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, body, body)",
        )
    ),
    _edit("a resent push stores again", "ListQueue", "acked twice", "count", "lease")(
        Edit("push_once", "  if first then", "  if false then")
    ),
    _edit("a dead letter is not written", "ListQueue", "lost")(
        Edit(
            "pop",
            "  count_up('dead:' .. reason, 1)\n",
            "  redis.call('XDEL', dead, id)\n  count_up('dead:' .. reason, 1)\n",
        )
    ),
    _edit("nack of a delayed message without a fence", "DelayQueue", "fencing", "lease")(
        Edit("delay/nack", DELAY_HOLDS, DELAY_ANYBODY)
    ),
    # --- an ack, a wait and a pop in one trip
    Sabotage(
        "an ack that failed in a trip counts as applied",
        ("after ack", "acked twice"),
        Slip(
            "ackq.queue.take",
            "_finish_acks",
            "if not isinstance(answer, Exception):\n        fencing",
            "if answer := [0] if isinstance(answer, Exception) else answer:\n        fencing",
        ),
        "ListQueue",
    ),
    # --- an operator's choice of delayed messages
    _edit("run_now deletes a message", "ListQueue", "lost", "audit")(
        Edit(
            "run_now",
            "redis.call('ZADD', delayed, 'XX', string.format('%.0f',"
            " now - 500 + (at + 1) / 2), key)",
            "redis.call('ZREM', delayed, key)",
        )
    ),
    _edit("cancel writes no dead letter", "ListQueue", "lost")(
        Edit("cancel", "local id = write_letter(dead", "local id = type(dead")
    ),
    _edit("cancel cancels nothing", "ListQueue", "after ack")(
        Edit(
            "cancel",
            "  if body then\n",
            "  canceled = canceled + (body and 1 or 0)\n  if false then\n",
        )
    ),
    _edit("what is canceled deep in the list is lost", "ListQueue", "lost")(
        Edit("pop", "      bury_canceled(key, body, note.count)\n", "")
    ),
    # --- unique pushes
    _edit("a unique push is not noted", "ListQueue", "unique")(
        Edit("push_unique", "    names.change(id, nil, mark(body), expiry)\n", "")
    ),
    _edit("an ack keeps the id of a unique push", "ListQueue", "audit")(
        Edit("ack", "    names.end_all(done)\n", "")
    ),
    _edit("redrive loses a message", "ListQueue", "lost", "audit", "stuck")(
        Edit("redrive", "  redis.call('HSET', context, key, fields.body)\n", "")
    ),
    _edit("redrive keeps the dead letter", "ListQueue", "dead", "acked twice")(
        Edit(
            "redrive",
            "'HDEL', errors, key)\n  redis.call('XDEL', dead, entry)\n",
            "'HLEN', errors)\n",
        )
    ),
    _edit("redrive of a delay queue loses a message", "DelayQueue", "lost", "audit")(
        Edit("delay/redrive", "  redis.call('HSET', bodies, key, fields.body)\n", "")
    ),
    _edit("redrive of a delay queue keeps the dead letter", "DelayQueue", "dead", "acked twice")(
        Edit("delay/redrive", "  redis.call('XDEL', dead, entry)\n", "")
    ),
    _edit("cancel of a delay queue deletes nothing", "DelayQueue", "after ack")(
        Edit(
            "delay/cancel",
            "  if lease <= now or ARGV[1] == '1' then\n",
            "  canceled = canceled + 1\n  if false then\n",
        )
    ),
    _edit("cancel of a partition deletes another's", "PartitionedDelayQueue", "lost", "after ack")(
        Edit(
            "delay/cancel",
            "  local first, key = (ARGV[at] - 1) * STRIDE + 1, ARGV[at + 1]\n",
            "  local first, key = (ARGV[at] - 1) * STRIDE + 1, ARGV[at + 1]\n"
            "  key = redis.call('ZRANGE', KEYS[first], 0, 0)[1] or key\n",
        )
    ),
    _edit("reschedule ignores its time", "DelayQueue", "early")(
        Edit(
            "delay/reschedule",
            "string.format('%.6f', due / 1000000)",
            "string.format('%.6f', now / 1000000)",
        )
    ),
    _edit("reschedule takes a lease away", "DelayQueue", "holder refused", "lease")(
        Edit("delay/reschedule", "if (lease and tonumber(lease) > now) or not", "if not")
    ),
    # --- groups
    _edit("a redriven message comes behind the others", "GroupedListQueue", "group order")(
        Edit("redrive", "head_of(tag) .. at ..", "head_of(tag) .. string.format('%016.0f', now) ..")
    ),
    _edit("a group that is resumed gets no turn", "GroupedListQueue", "stuck")(
        Edit("groups/limit", "\nturn(group)\n", "\n")
    ),
    # --- claims
    _edit("a claim is not fenced", "ClaimedListQueue", "stuck", "lost", "rows", "audit")(
        Edit("claims/claim", "if tonumber(facts[1] or 0) ~= epoch then", "if false then")
    ),
    _edit("begin fences nobody", "ClaimedListQueue", "stuck", "lost", "rows", "audit")(
        Edit(
            "claims/begin",
            "redis.call('HINCRBY', group, 'epoch', 1)",
            "redis.call('HSETNX', group, 'epoch', 1)\nepoch = 1",
        )
    ),
    _edit("a claim loses a due message", "ClaimedListQueue", "lost")(
        Edit(
            "claims/claim",
            "      charge(body)\n      recovered",
            "      charge(body)\n      redis.call('LTRIM', claim, 1, -1)\n      recovered",
        )
    ),
    _edit("a claim takes what is leased", "ClaimedListQueue", "holder refused", "acked twice")(
        Edit(
            "claims/claim",
            "local keys = redis.call('ZRANGEBYSCORE', zset, '-inf', now_text,",
            "local keys = redis.call('ZRANGEBYSCORE', zset, '-inf', '+inf',",
        )
    ),
    _edit("a claim that was planned goes on growing", "ClaimedListQueue", "lost", "stuck")(
        Edit(
            "claims/claim",
            "  if batch <= last or batch <= acked or rows > 0 then",
            "  if false then",
        )
    ),
    _edit("an acked claim is returned", "ClaimedListQueue", "rows", "acked twice", "stuck")(
        Edit(
            "claims/ack",
            "  redis.call('ZREM', held, claim)\n"
            "  redis.call('HDEL', heldrows, claim)\n  if keep > 0 then",
            "  redis.call('ZADD', held, 1, claim)\n  if keep >= 0 then",
        )
    ),
    _edit("a returned claim loses a message", "ClaimedListQueue", "lost")(
        Edit("held/give_back", "redis.call('PERSIST', list)", "redis.call('LPOP', list)")
    ),
    # --- partitions and shards
    _edit("the dead keep their partitions", "PartitionedDelayQueue", "stuck")(
        Edit("members/heartbeat", "  if ended ~= session then", "  if false then")
    ),
    _edit(
        "delete of a partition without a fence",
        "PartitionedDelayQueue",
        "fencing",
        "acked twice",
        "lost",
    )(Edit("delay/delete", DELAY_HOLDS, DELAY_ANYBODY)),
    _edit("former shards are forgotten", "ShardedQueue", "lost")(FORGOTTEN),
    _edit("a shard is closed with its messages", "ShardedQueue", "lost")(CLOSED),
    _edit("a shard is sealed with messages that were moved aside", "GroupedShardedQueue", "lost")(
        Edit("sharded/seal", "paused, parked, closed", "paused, closed")
    ),
    # --- RSMQ
    _edit("RSMQ's receive count stays", "RSMQ", "count")(
        Edit(
            "rsmq/receive",
            "deliver(id, body, received + 1, fr)",
            "deliver(id, body, math.max(1, received), fr)",
        )
    ),
    _edit("RSMQ ignores a delay", "RSMQ", "early")(
        Edit("rsmq/send", " + math.floor(seconds * 1000 + 0.5))", ")")
    ),
    _edit("an RSMQ message is dead one receive late", "RSMQ", "dead")(
        Edit("rsmq/receive", "received >= max_receives", "received > max_receives")
    ),
    # --- places and rows
    _edit("two messages have one index", "Topic", "place")(
        Edit("topic/publish", "return {'ok', index, first}", "return {'ok', index - 1, first}")
    ),
    _edit("a claim leaves a message on the list", "ClaimedListQueue", "rows")(
        Edit(
            "claims/claim",
            "redis.call('LTRIM', list, 0, -used - 1)",
            "redis.call('LTRIM', list, 0, -used)",
        )
    ),
    # --- commits
    _edit("a batch is committed twice", "StagedListQueue", "acked twice", "count", "lease")(
        Edit("staging/commit", "if marker >= batch then", "if marker > batch then")
    ),
    _edit("a commit forgets a list", "StagedDelayQueue", "lost")(
        Edit(
            "staging/commit",
            "for i = 1, count do\n  local list",
            "for i = 2, count do\n  local list",
        )
    ),
    _edit("committed rows are dropped", "StagedListQueue", "lost")(
        Edit("staging/drop", "if not redis.call('ZSCORE', held, list) and", "if")
    ),
    _edit("a committed list arrives twice", "StagedTopic", "acked twice")(
        Edit(
            "staging/topic",
            "  if count > 0 then\n    redis.call('UNLINK', list)\n  end\n"
            "  redis.call('ZREM', held, list)\n",
            "",
        )
    ),
    _edit("a committed list of a delay queue arrives twice", "StagedPartitions", "acked twice")(
        Edit(
            "staging/delay",
            "  if #rows > 0 then\n    redis.call('UNLINK', list)\n  end\n"
            "  redis.call('ZREM', held, list)\n",
            "",
        )
    ),
)


@contextlib.contextmanager
def planted(how: Iterable[Edit] | Slip) -> Iterator[None]:
    """Let ackq make these mistakes."""
    with how.planted() if isinstance(how, Slip) else _edited(how):
        yield


@contextlib.contextmanager
def _edited(edits: Iterable[Edit]) -> Iterator[None]:
    """Let ackq use scripts with these mistakes."""
    load = scripts.load
    made: dict[str, Script] = {}
    for edit in edits:
        text = (made.get(edit.script) or load(edit.script)).text.decode()
        assert text.count(edit.old) == 1, f"{edit.script}: the old text must occur once"
        raw = text.replace(edit.old, edit.new).encode()
        sha = hashlib.sha1(raw, usedforsecurity=False).hexdigest().encode()
        made[edit.script] = Script(edit.script, raw, sha)
    scripts.load = lambda name: made.get(name) or load(name)  # type: ignore[assignment]
    try:
        yield
    finally:
        scripts.load = load


def find(
    sabotage: Sabotage, server: Server, folder: Path, seeds: Iterable[int] = SEEDS
) -> Result | None:
    """Plant a fault, and return the first history that shows it."""
    suited = [seed for seed in seeds if _suits(sabotage, seed)]
    if callable(sabotage.how):
        saboteur = sabotage.how

        def strike(draw: random.Random, number: int) -> None:
            if number % EVERY == 0:
                saboteur(server.client, draw)

        for seed in suited:
            before_each = partial(strike, random.Random(f"sabotage {seed}"))
            result = simulate(server, seed, folder, before_each=before_each)
            if result.broken & set(sabotage.rules):
                return result
        return None
    with planted(sabotage.how):
        for seed in suited:
            result = simulate(server, seed, folder)
            if result.broken & set(sabotage.rules):
                return result
    return None


def _suits(sabotage: Sabotage, seed: int) -> bool:
    product = sabotage.workload
    if sabotage not in OTHERS:
        family = product.partition(",")[0]
        product = _WORKLOADS.get(product) or _PRODUCTS.get(family, "ListQueue")
    return PRODUCTS[seed % len(PRODUCTS)].__name__ == product
