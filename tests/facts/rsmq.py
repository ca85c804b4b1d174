"""The facts of RSMQ: see `tests.facts.facts`."""

from typing import Any

from ackq.rsmq import RSMQ
from benchmarks.worst.scene import KIB, LARGE, MIB, NAME, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.refused import NO_NUMBERS, bad

QUEUE = "jobs"
ZSET = f"{NAME}:{QUEUE}".encode()
HASH, STREAM = ZSET + b":Q", ZSET + b":Q.dead"
#: RSMQ's ids have 32 characters.
ID = "local long = string.rep('0', 24) .. id"

ATTRIBUTES = Facts(
    "rsmq/attributes",
    calls=(("vt", 5),),
    refused={
        "no value": ("vt",),
        "nothing of that name": ("x", 5),
        "too many": ("vt", 5) * 4,
        **{
            f"{name}={value!r}": (name, value)
            for name in ("vt", "delay", "maxsize")
            for value in (*NO_NUMBERS, -2, 10_000_000)
        },
        "maxsize=1023": ("maxsize", 1023),
    },
)
COUNTERS = Facts(
    "rsmq/counters",
    calls=((),),
    mistakes=r"""
rsmq.test_operations.test_the_counts_of_a_queue_go_on_until_it_is_deleted
  what is there is said to be gone
  - redis.call('ZCARD', zset), letters
  + 0, letters
""",
)
CREATE_QUEUE = Facts(
    "rsmq/create_queue",
    calls=(("q", 30, 0, 65536 - 1),),
    fewest=4,
    refused={"no name": ("", 30, 0, 1024)},
)
DELETE = Facts(
    "rsmq/delete",
    calls=(("a" * 32,),),
    fewest=1,
    refused={"no id": ("a" * 31,), "too many": ("a" * 32,) * 1001},
)
DELETE_QUEUE = Facts(
    "rsmq/delete_queue",
    calls=(("q",),),
)
RECEIVE = Facts(
    "rsmq/receive",
    calls=(("hide", 1, 30, 0, 0),),
    fewest=5,
    mistakes=r"""
test_budgets.test_rsmq_sets_strange_ids_aside_unread
  reads the body of what it sets aside
  - local values = #id == 32
  + local values = redis.call('HGET', hash, id) and #id == 32
""",
)
REDRIVE = Facts(
    "rsmq/redrive",
    calls=((1,),),
    fewest=1,
    refused={"no entry": (1, "1-1", "x"), "too many": (1, *["1-1"] * 17)},
    mistakes=r"""
test_budgets.test_rsmq_redrives_a_mebibyte
  reads many bodies before it weighs one
  - for i = 1, #entry[2], 2 do
  + redis.call('XRANGE', stream, '-', '+', 'COUNT', number)
  + for i = 1, #entry[2], 2 do
""",
)
SEND_CALL = ("a" * 20, 0, "", "body")
SEND = Facts(
    "rsmq/send",
    calls=(SEND_CALL,),
    fewest=4,
    refused={
        **bad(SEND_CALL, {0: ("", "a" * 19, "-" * 20)}),
        "too many": (*SEND_CALL, *["body"] * 1000),
    },
)
VISIBILITY = Facts(
    "rsmq/visibility",
    calls=(("a" * 32, 5),),
    fewest=2,
)


def of(scene: Scene, **settings: Any) -> RSMQ:
    """Return the namespace, with a queue that takes bodies of any length."""
    rsmq = scene.own(RSMQ(scene.client, NAME, **settings))
    rsmq.create_queue(QUEUE, maxsize=-1)
    return rsmq


def sent(scene: Scene, count: int, size: int = 100, receives: int = 0) -> list[str]:
    """Send messages that are all visible since one time; return their ids."""
    line = f"""{ID} redis.call('ZADD', KEYS[1], 1, long) redis.call('HSET', KEYS[2], long, body)
      if {receives} > 0 then redis.call('HSET', KEYS[2], long .. ':rc', {receives},
        long .. ':fr', 1) end"""
    scene.fill(line, (ZSET, HASH), count, size)
    return ["0" * 24 + f"m{n:07d}" for n in range(1, count + 1)]


def dead(scene: Scene, count: int, size: int = 100) -> None:
    """Make dead letters."""
    line = f"""{ID} redis.call('XADD', KEYS[1], '*', 'id', long, 'body', body, 'rc', 3, 'fr', 1,
      'time', 1)"""
    scene.fill(line, (STREAM,), count, size)


@CREATE_QUEUE.worst("100,000 queues")
def create(scene: Scene) -> Act:
    rsmq = of(scene)
    scene.fill("redis.call('SADD', KEYS[1], id)", (f"{NAME}:QUEUES".encode(),), scene.many(100_000))

    def work() -> None:
        for n in range(20):
            rsmq.create_queue(f"queue{n}")

    return work


@ATTRIBUTES.worst("1,000,000 messages")
def attributes(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(1_000_000))
    return times(20, lambda: rsmq.set_queue_attributes(QUEUE, vt=9))


@COUNTERS.worst("1,000,000 messages")
def counters(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(1_000_000))
    return times(20, lambda: rsmq.counters(QUEUE))


@SEND.worst("100,000 x 4 KiB, with notices")
def send(scene: Scene) -> Act:
    rsmq, text = of(scene, realtime=True), b"x" * scene.size(4 * KIB)
    return lambda: rsmq.send_messages(QUEUE, [text] * scene.many(100_000))


@SEND.worst("300 x 64 KiB of long characters, to be counted")
def send_counted(scene: Scene) -> Act:
    rsmq = scene.own(RSMQ(scene.client, NAME))
    rsmq.create_queue(QUEUE, maxsize=65_536)
    text = "\u20ac" * (scene.size(65_000))
    return lambda: rsmq.send_messages(QUEUE, [text] * 300)


@SEND.worst("16 x 32 MiB")
def send_larger(scene: Scene) -> Act:
    rsmq, text = of(scene), b"x" * scene.size(32 * MIB)
    return lambda: rsmq.send_messages(QUEUE, [text] * 16)


@RECEIVE.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
@RECEIVE.worst("1,000,000 visible since one time", count=1_000_000, receives=3)
def receive(scene: Scene, count: int, size: int = 100, receives: int = 0) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(count), scene.size(size), receives=receives)
    return times(100, lambda: rsmq.receive_messages(QUEUE, 1000))


@RECEIVE.worst("16 x 32 MiB")
def receive_larger(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, 16, scene.size(32 * MIB))
    return times(16, lambda: rsmq.receive_messages(QUEUE, 1000))


@RECEIVE.worst("64 x 0.9 MiB popped")
def pop_large(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, 64, scene.size(LARGE))
    return times(64, lambda: rsmq.pop_message(QUEUE))


@RECEIVE.worst("100,000 to the dead letters", count=100_000)
@RECEIVE.worst("1,000 x 0.9 MiB to the dead letters", count=1000, size=LARGE)
def receive_dying(scene: Scene, count: int, size: int = 100) -> Act:
    rsmq = of(scene, max_receives=5)
    sent(scene, scene.many(count), scene.size(size), receives=5)
    return lambda: rsmq.receive_messages(QUEUE, 1000)


@RECEIVE.worst("1,000 with notes of failures to the dead letters")
def receive_noted_dying(scene: Scene) -> Act:
    rsmq = of(scene, max_receives=5)
    sent(scene, 1000, receives=5)
    line = f"""{ID} local lines = {{}}
      for n = 1, 5 do lines[n] = n .. ':7:' .. string.rep('x', 8192) end
      redis.call('HSET', KEYS[1], long, table.concat(lines, '\\n'))"""
    scene.fill(line, (ZSET + b":Q.errors",), 1000)
    return lambda: rsmq.receive_messages(QUEUE, 1000)


@RECEIVE.worst("1,000 x 0.9 MiB under ids that are none")
def receive_strange(scene: Scene) -> Act:
    rsmq = of(scene)
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    scene.fill(line, (ZSET, HASH), 1000, scene.size(LARGE))
    return lambda: rsmq.receive_messages(QUEUE, 1000)


@DELETE.worst("1,000 x 0.9 MiB")
def delete_large(scene: Scene) -> Act:
    rsmq, ids = of(scene), sent(scene, 1000, scene.size(LARGE))
    return lambda: rsmq.delete_messages(QUEUE, ids)


@DELETE.worst("100,000 of 1,000,000")
def delete_many(scene: Scene) -> Act:
    rsmq, ids = of(scene), sent(scene, scene.many(1_000_000), receives=3)
    return lambda: rsmq.delete_messages(QUEUE, ids[: scene.many(100_000)])


@DELETE_QUEUE.worst("1,000,000 messages and dead letters")
def delete_queue(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, scene.many(1_000_000))
    dead(scene, scene.many(1_000_000))
    return lambda: rsmq.delete_queue(QUEUE)


@DELETE_QUEUE.worst("1,000 x 0.9 MiB")
def delete_large_queue(scene: Scene) -> Act:
    rsmq = of(scene)
    sent(scene, 1000, scene.size(LARGE))
    return lambda: rsmq.delete_queue(QUEUE)


@REDRIVE.worst("16 x 32 MiB", count=16, size=32 * MIB)
@REDRIVE.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
@REDRIVE.worst("100,000 dead letters", count=100_000)
def redrive(scene: Scene, count: int, size: int = 100) -> Act:
    rsmq = of(scene)
    dead(scene, scene.many(count), scene.size(size))
    return lambda: rsmq.redrive(QUEUE)


@VISIBILITY.worst("one of 1,000,000, one time for all")
def visibility(scene: Scene) -> Act:
    rsmq, ids = of(scene), sent(scene, scene.many(1_000_000))
    return times(50, lambda: rsmq.change_message_visibility(QUEUE, ids[0], 9))
