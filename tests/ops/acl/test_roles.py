"""A role can do what it is for, and nothing else."""

from collections.abc import Callable

import pytest
import redis
from redis.exceptions import NoPermissionError

from ackq import Queue, scripts
from ackq.core.claim_groups import Claim
from ackq.core.names import SUFFIXES
from ackq.errors import ConfigurationError, NotConfirmed
from ackq.ops.acl import OTHER_ROLES, ROLES, SCRATCH, rules
from ackq.ops.acl_access import callers_of
from ackq.ops.sharded import is_sharded
from ackq.ops.trials import is_denial
from ackq.queue import take
from ackq.queue.claims_client import Claims
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.registry import entries, leave_order
from ackq.queue.row_dead_letters import RejectedRow
from ackq.queue.row_dead_letters_client import RowDeadLetters
from ackq.queue.staging_client import Staging
from ackq.staging.keys import Staged
from ackq.worker.presence import heartbeat
from tests.ops.acl.conftest import AsRole, denied, has_selectors, stock
from tests.queue.scripts.busy import fill, fill_groups
from tests.queue.scripts.calls import CALLS
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import Space

Operation = Callable[[Queue], object]


def _take(queue: Queue) -> Message:
    message = queue.pop()
    assert message is not None
    return message


def _wait(queue: Queue) -> None:
    """Wait for a push to a queue that has nothing: the script says so, then BLMOVE."""
    while message := queue.pop():
        queue.ack(message)
    assert queue.pop(timeout=0.05) is None


def _pause(queue: Queue) -> None:
    queue.pause()
    queue.resume()


#: What can be done to a queue.
OPERATIONS: dict[str, Operation] = {
    "push": lambda queue: queue.push({"id": "new"}),
    "push later": lambda queue: queue.push({"id": "new"}, delay=60),
    "push once": lambda queue: queue.push({"id": "new"}, dedup="marker"),
    "push unique": lambda queue: queue.push({"id": "new"}, unique="done"),
    "push to the front": lambda queue: queue.push({"id": "new"}, front=True),
    "confirm": lambda queue: queue.push({"id": "new"}, confirm=1),
    "take": _take,
    "wait": _wait,
    "ack": lambda queue: queue.ack(_take(queue)),
    "ack by id": lambda queue: queue.ack_id("a"),
    "nack": lambda queue: queue.nack(_take(queue), delay=60),
    "release": lambda queue: queue.release(_take(queue)),
    "reject": lambda queue: queue.reject(_take(queue)),
    "extend": lambda queue: queue.extend(_take(queue)),
    "find its latest take": lambda queue: queue.execute(take.latest, "t"),
    "count": lambda queue: queue.stats(),
    "peek": lambda queue: queue.peek(),
    "read the oldest": lambda queue: queue.oldest_ready(),
    "find": lambda queue: queue.find("none"),
    "search": lambda queue: queue.search({"none": 1}),
    "read the dead": lambda queue: queue.dead_letters(),
    "redrive": lambda queue: queue.redrive(1),
    "drop": lambda queue: queue.drop_dead_letters("1-1"),
    "run now": lambda queue: queue.run_now(ids=["later"]),
    "cancel": lambda queue: queue.cancel(ids=["later"]),
    "pause": _pause,
    "audit": lambda queue: queue.audit(repair=True),
    "drain": lambda queue: queue.drain(),
    "purge": lambda queue: queue.purge(dead=True),
    "watch": lambda queue: queue.counters(),
    "list claims": lambda queue: queue.claims(),
    "be listed": lambda queue: queue.execute(heartbeat, "w", b"{}", 60.0, b""),
    "list workers": lambda queue: queue.execute(entries),
    "order": lambda queue: queue.execute(leave_order, "quiet", [b"w"]),
}
TAKES = {"take", "wait", "ack", "ack by id", "nack", "release", "reject", "extend"}
_PUSHES = {"push", "push later", "push to the front", "push unique"}
_SUMS = {"count", "list claims", "list workers"}
_LOOKS = {*_SUMS, "peek", "read the oldest", "find", "search", "read the dead"}
_CHANGES = {"redrive", "drop", "run now", "cancel", "pause", "audit", "drain", "purge", "order"}
#: What begins with a call that may be allowed, so that the second one may be denied.
SEVERAL = TAKES - {"take", "ack by id"} | {"run now", "cancel"}
#: Without selectors Redis grants commands and keys, not pairs of them. So a user that may give
#: messages back can also store new ones, and so on: what else a role can do at most.
_GIVES_BACK = {*_PUSHES, "confirm", "peek", "read the oldest", "run now", "cancel"}
_CLAIMS = {*_GIVES_BACK, *TAKES, "purge"}
BESIDES = {
    "scheduler": {"list claims", "peek", "search", "run now", "cancel"},
    "viewer": {"order"},
    "consumer": {*_GIVES_BACK, "count", "find its latest take"},
    "worker": {*_GIVES_BACK, "pause", "order", "find", "search", "list claims", "list workers"},
    "operator": {"push later", "ack by id", "be listed", "take"},
    "claimer": _CLAIMS,
    "pipeline": _CLAIMS,
    "writer": {*_PUSHES, "confirm", "run now"},
}
#: With selectors: what takes the same commands on the same keys.
_CONFIRMS = {"push", "push later", "confirm"}
BESIDES_WITH_SELECTORS = {
    "scheduler": {"list claims", "peek"},
    "consumer": {*_CONFIRMS, "push unique", "count", "cancel"},
    "worker": {*_CONFIRMS, "push unique", "cancel", "peek", "find", "search", "list claims"},
    "operator": {"push later", "ack by id"},
    "claimer": {"push later", "ack by id"},
    "pipeline": {"push later", "ack by id"},
    "writer": _CONFIRMS,
}
#: What each role is for.
FOR: dict[str, set[str]] = {
    "producer": {"push", "confirm"},
    "scheduler": {*_PUSHES, "push once", "confirm"},
    "consumer": {*TAKES, "watch"},
    "worker": {*TAKES, "count", "read the oldest", "find its latest take", "be listed", "watch"},
    "claimer": {"list claims"},
    "pipeline": {"list claims"},
    "writer": set(),
    "monitor": _SUMS,
    "watcher": {*_SUMS, "watch"},
    "viewer": {*_LOOKS, "watch"},
    "operator": {*_LOOKS, *_CHANGES, "watch"},
    "doctor": set(),
    "loader": set(),
}


def outcome(operation: Operation, queue: Queue) -> str:
    """Return whether the server let it pass."""
    try:
        operation(queue)
    except NotConfirmed:
        return "allowed"
    except redis.ResponseError as error:
        if is_denial(error):
            return "denied"
        raise
    return "allowed"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_can_do_what_it_is_for_and_nothing_else(
    as_role: AsRole, admin: redis.Redis, stocked: Queue, role: str
) -> None:
    passed = set()
    with Queue(as_role(role, stocked.name), stocked.name) as queue:
        for name, operation in OPERATIONS.items():
            stock(stocked)
            before = where(stocked)
            if outcome(operation, queue) == "allowed":
                passed.add(name)
            elif name not in SEVERAL:
                assert where(stocked) == before, f"{name} was denied half-way"
    besides = BESIDES_WITH_SELECTORS if has_selectors(admin) else BESIDES
    assert FOR[role] <= passed <= FOR[role] | besides.get(role, set())


@pytest.mark.parametrize("role", ROLES)
def test_a_role_can_call_every_script_whose_header_names_it(
    as_role: AsRole, admin: redis.Redis, name: str, role: str
) -> None:
    used = f"{SCRATCH}{name}" if role == "doctor" else name
    for grouped in (False, True):
        client = as_role(role, name, grouped=grouped)
        client.script_load = admin.script_load  # type: ignore[method-assign]
        by_admin, by_role = (
            Space(each, used, scripts.directory(), grouped=grouped) for each in (admin, client)
        )
        for call in CALLS:
            of_groups = call.script.startswith("groups/")
            takes_groups = of_groups or parse(read(scripts.directory(), call.script)).grouped
            is_record = call.script in ("record", "forget") and not grouped
            if is_record or not (takes_groups if grouped else not of_groups):
                continue
            if callers_of(call.script) & {role, "all"}:
                fill(by_admin)
                if grouped:
                    fill_groups(by_admin)
                call.on(by_role)
                by_admin.clear()


def test_a_consumer_may_wait_at_the_limit_of_its_queue(
    as_role: AsRole, admin: redis.Redis, name: str
) -> None:
    client = as_role("consumer", name, grouped=True)
    with (
        Queue(admin, name, max_in_flight=1) as queue,
        Queue(client, name, max_in_flight=1) as waiter,
    ):
        queue.push_many([{"id": "a"}, {"id": "b"}])
        held = queue.pop()
        assert held is not None
        assert waiter.pop(timeout=0.05) is None
        queue.ack(held)
        taken = waiter.pop(timeout=5)
        assert taken is not None
        queue.purge()
        queue.drain()


def where(queue: Queue) -> tuple[int, int, int, int]:
    now = queue.stats()
    return now.ready, now.in_flight, now.delayed, now.dead


@pytest.mark.parametrize("role", ROLES)
def test_a_role_can_do_nothing_to_other_queues(
    as_role: AsRole, admin: redis.Redis, name: str, role: str
) -> None:
    with Queue(admin, f"{name}2") as other:
        other.push({"id": "a"})
    client = as_role(role, name)
    for neighbour in (f"{name}2", f"x{name}"):
        with Queue(client, neighbour) as queue:
            assert {outcome(each, queue) for each in OPERATIONS.values()} == {"denied"}


@pytest.mark.parametrize("role", sorted(set(ROLES) - {"producer", "doctor", "loader"}))
def test_a_role_may_learn_that_its_queue_is_not_sharded(
    as_role: AsRole, admin: redis.Redis, token: str, role: str
) -> None:
    """Every command looks, and refused reads would fill the server's log."""
    assert not is_sharded(as_role(role, token), token)
    assert denied(admin, f"{token}-{role}") == []


#: Commands that do harm and that no role needs, on every key of a queue.
HARMFUL: dict[str, tuple[str, ...]] = {
    "SET": ("x",),
    "PEXPIRE": ("1",),
    "DEL": (),
    "UNLINK": (),
    "LPUSH": ("x",),
    "LTRIM": ("1", "0"),
    "RENAME": ("{name}CLAIM:g:1",),
    "RPUSH": ("x",),
    "HSET": ("f", "v"),
    "ZADD": ("1", "m"),
    "PERSIST": (),
}
CLAIM, STAGED, STAGING = "CLAIM:g:1", "STAGED:w:1:t", "STAGING:w:1"
_TAKER = {
    "LPUSH": {""},
    "RPUSH": {""},  # a message given back wakes a consumer
    "LTRIM": {"", "HANDOFF", CLAIM, STAGED},
    "PERSIST": {CLAIM, STAGED},
    "HSET": {"CONTEXT", "RECEIVES", "EXTENDED", "HELDROWS", "ERRORS", "NOTES", "COUNTERS"},
    "PEXPIRE": {"COUNTERS"},
    "ZADD": {"BACKUP", "DELAYED", "HELD"},
    "SET": {"WAITERS:LOOKS", "TAKEN:t"},
}
_CLAIMER = {
    "LPUSH": {CLAIM},
    "LTRIM": {"", "HANDOFF", CLAIM, STAGED},
    "PEXPIRE": {CLAIM},
    "UNLINK": {CLAIM},
    "RENAME": {"", CLAIM},
    "PERSIST": {CLAIM, STAGED},
    "HSET": {"CONTEXT", "HELDROWS", "CLAIMS:g", "NOTES"},
    "ZADD": {"DELAYED", "HELD"},
}
#: What of it a role needs, with selectors. The operator may purge, and needs most of it.
NEEDED: dict[str, dict[str, set[str]]] = {
    "producer": {"LPUSH": {""}},
    "scheduler": {
        "LPUSH": {"", "HANDOFF"},
        "SET": {"DEDUP:m"},
        "PEXPIRE": {"DEDUP:m"},
        "HSET": {"CONTEXT", "NOTES"},
        "ZADD": {"DELAYED"},
    },
    "consumer": _TAKER,
    "worker": {
        **_TAKER,
        "SET": {*_TAKER["SET"], "RATELIMIT"},
        "DEL": {"RATELIMIT"},
        "HSET": {*_TAKER["HSET"], "TICKS", "WORKERS:DOING"},
        "ZADD": {*_TAKER["ZADD"], "WORKERS:SEEN"},
        "PEXPIRE": {"WORKERS:SEEN", "WORKERS:DOING", "COUNTERS"},
    },
    "claimer": _CLAIMER,
    "pipeline": {
        **_CLAIMER,
        "HSET": {*_CLAIMER["HSET"], "REJECTED:w"},
        "UNLINK": {CLAIM, "REJECTED:w"},
        "PEXPIRE": {CLAIM, "REJECTED:w"},
    },
    "writer": {
        "LPUSH": {"", STAGED},
        "LTRIM": {CLAIM, STAGED},
        "PEXPIRE": {STAGED, STAGING},
        "UNLINK": {STAGED},
        "PERSIST": {"", CLAIM, STAGED},
        "HSET": {"CONTEXT", "COMMITS", "HELDROWS"},
        "ZADD": {"DELAYED", "HELD"},
    },
    "monitor": {},
    "watcher": {"PEXPIRE": {"COUNTERS"}, "HSET": {"COUNTERS"}},
    "viewer": {"PEXPIRE": {"COUNTERS"}, "HSET": {"COUNTERS"}},
    "doctor": {},
    "loader": {},
}


#: They send no scripts.
NO_SCRIPTS = {"producer", "loader"}


@pytest.mark.parametrize("by_script", [False, True], ids=["by itself", "by a script"])
@pytest.mark.parametrize("role", NEEDED)
def test_a_role_can_run_no_command_on_a_key_that_it_does_not_need_it_for(
    as_role: AsRole, admin: redis.Redis, name: str, role: str, by_script: bool
) -> None:
    if not has_selectors(admin):
        with pytest.raises(redis.ResponseError, match="ACL SETUSER"):  # better than weaker rules
            admin.execute_command("ACL", "SETUSER", "nobody", *rules("jobs", "watcher"))
        return
    client = as_role(role, name)
    passed: dict[str, set[str]] = {}
    suffixes = [
        "",
        *SUFFIXES,
        "RATELIMIT",
        "TICKS",
        "WAITERS:LOOKS",
        "TAKEN:t",
        "DEDUP:m",
        "CLAIMS:g",
        CLAIM,
        STAGED,
        STAGING,
        "WORKERS:SEEN",
        "WORKERS:DOING",
        "WORKERS:ORDERS",
        "REJECTED:w",
    ]
    for command, arguments in HARMFUL.items():
        for suffix in suffixes:
            words = [command, name + suffix, *(each.format(name=name) for each in arguments)]
            if by_script:
                text = f"return redis.call({', '.join(map(repr, words))})"
                words = ["EVAL", text, "0"]
            try:
                client.execute_command(*words)
            except redis.ResponseError as error:
                if is_denial(error):
                    continue
            passed.setdefault(command, set()).add(suffix)
    assert passed == ({} if by_script and role in NO_SCRIPTS else NEEDED[role])


@pytest.mark.parametrize("role", ROLES)
def test_no_role_reads_a_password(as_role: AsRole, name: str, role: str) -> None:
    client = as_role(role, name)
    for command in (
        ("CONFIG", "GET", "requirepass"),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("ACL", "GETUSER", "default"),
    ):
        with pytest.raises(NoPermissionError):
            client.execute_command(*command)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_cannot_go_past_the_scripts(as_role: AsRole, name: str, role: str) -> None:
    client = as_role(role, name)
    keys = [key.decode() for key in QueueKeys.of(name).all()]
    forbidden: list[tuple[str, ...]] = [
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("CONFIG", "SET", "save", ""),
        ("ACL", "LIST"),
        ("ACL", "SETUSER", "me"),
        ("SCRIPT", "FLUSH"),
        ("SHUTDOWN",),
        ("MONITOR",),
        *(("RESTORE", key, "0", "") for key in keys),
        *(("EXPIRE", key, "1") for key in keys),
        *(("RPOP", key) for key in keys),
        *(("COPY", key, f"{name}z") for key in keys),
    ]
    # A claim of a whole list is one RENAME, and so is a commit into an empty queue.
    if role not in ("claimer", "pipeline", "writer", "doctor"):
        forbidden.append(("RENAME", keys[0], keys[1]))
    for command in forbidden:
        with pytest.raises(NoPermissionError):
            client.execute_command(*command)


def test_a_claimer_can_do_all_that_a_source_does(
    as_role: AsRole, stocked: Queue, name: str, admin: redis.Redis
) -> None:
    ready = stocked.stats().ready
    with Claims(as_role("claimer", name), name, "group") as group:
        group.begin()
        assert group.claim(0, messages=1) == Claim(1, 1)
        assert group.claim(1, messages=1000) == Claim(2, ready - 1)
        group.beat()
        assert len(group.read(2, 0, 2)) == 2
        assert group.ack(1) == 1
        assert group.readable(1, 2) == [Claim(1, 1), Claim(2, ready - 1)]
        group.forget(1)
        assert group.release() == ready - 1


def test_a_pipeline_can_also_make_rows_dead_letters(
    as_role: AsRole, stocked: Queue, name: str
) -> None:
    dead = stocked.stats().dead
    client = as_role("pipeline", name)
    with Claims(client, name, "group") as group, RowDeadLetters(client, name, "w") as letters:
        group.begin()
        assert group.claim(0, messages=2) == Claim(1, 2)
        letters.begin("1")
        assert letters.reject("1", [RejectedRow("0", b"{}", "bad")]) == 1
        assert group.ack(1) == 2
    assert stocked.stats().dead == dead + 1


def test_a_writer_can_do_all_that_a_sink_does(as_role: AsRole, stocked: Queue, name: str) -> None:
    ready = stocked.stats().ready
    with Staging(as_role("writer", name), name, "query") as writer:
        lost, kept = Staged("0-a"), Staged("1-a")
        writer.stage(0, lost, [b"x"])
        writer.discard(0, lost)
        writer.stage(0, kept, [b"x"] * 20, [(writer.now() + 60_000_000, b"y")])
        assert writer.commit(0, [kept]) == 21
        assert writer.committed() == 0
        writer.stage(1, Staged("0-b"), [b"x"])
        assert writer.abort(1) == 1
        writer.forget()
    assert stocked.stats().ready == ready + 20


@pytest.mark.parametrize("role", ["consumer", "worker", "claimer", "operator"])
def test_who_takes_can_give_back_what_others_claimed(
    as_role: AsRole, stocked: Queue, name: str, admin: redis.Redis, role: str
) -> None:
    with Claims(admin, name, "group") as group:
        group.begin()
        group.claim(0, messages=3)
    admin.zadd(f"{name}HELD", {f"{name}CLAIM:group:1": 1})
    client = as_role(role, name)
    with Queue(client, name) as queue, Claims(client, name, "other") as other:
        if role == "claimer":
            other.begin()
            other.claim(0, messages=1)
        elif role == "operator":
            queue.drain()
        else:
            _take(queue)
    assert {each.group for each in stocked.claims()} <= {"other"}


def test_a_producer_cannot_read_what_it_pushed(as_role: AsRole, name: str) -> None:
    client = as_role("producer", name)
    client.lpush(name, '{"id":"a"}')
    for command in (
        ("LRANGE", name, "0", "-1"),
        ("LINDEX", name, "0"),
        ("DEL", name),
        ("EVAL", "return 1", "0"),
        ("INFO",),
    ):
        with pytest.raises(NoPermissionError):
            client.execute_command(*command)


def test_without_eval_scripts_run_once_they_are_loaded(
    as_role: AsRole, stocked: Queue, name: str, admin: redis.Redis
) -> None:
    from ackq.scripts import load

    client = as_role("consumer", name, eval=False)
    with pytest.raises(NoPermissionError):
        client.eval("return 1", 0)
    loader = as_role("loader", name)
    for each in ("pop", "ack"):
        loader.script_load(load(each).text)
    with Queue(client, name) as queue:
        assert queue.ack(_take(queue)) == 1


@pytest.mark.parametrize("role", ROLES)
def test_no_rule_covers_more_keys_than_it_names(name: str, role: str) -> None:
    patterns = [word[1:] for word in rules(name, role) if word.startswith("~")]
    starred = {each for each in patterns if "*" in each}
    prefixes = (
        "DEDUP:*",
        "CLAIM:*:*",
        "CLAIMS:*",
        "STAGED:*",
        "STAGED:*:*:*",
        "STAGING:*:*",
        "REJECTED:*",
    )
    assert starred <= {f"{SCRATCH}*", *(name + prefix for prefix in prefixes)}
    assert not any(word in ("allkeys", "allcommands", "nopass") for word in rules(name, role))


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a role is one of producer, "):
        rules("jobs", "king")


def test_a_script_names_the_roles_that_call_it() -> None:
    known = {"all", "none"}.union(ROLES, *OTHER_ROLES.values())
    for script in scripts.names():
        callers = callers_of(script)
        place = f"lua/{script}.lua"
        assert callers, f"{place}: end the header with '-- Roles: consumer, worker', or 'none'"
        assert callers <= known, f"{place} names {callers - known}: roles are those of ackq acl"
