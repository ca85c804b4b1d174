"""What a survey sees of a list, with which means, and that it changes nothing."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq import Groups, Queue
from ackq.core.effects import Operation, Request, Sleep
from ackq.ops.survey import Survey, Surveyor, bodies, neighbours
from ackq.ops.survey.advice import advise
from ackq.ops.survey.bodies import sample, summary_of
from ackq.ops.survey.clients import Users, note
from ackq.ops.survey.edges import MAX_BYTES, shift, watch
from ackq.ops.survey.neighbours import processing_lists
from tests.servers import private_server
from tests.waiting import wait_until


@pytest.fixture
def client(plain_client: redis.Redis) -> redis.Redis:
    """A client of one plain server."""
    return plain_client


def run(steps: Operation[Any], client: redis.Redis, during: Callable[[], Any] = int) -> Any:
    """Run an operation; each of its sleeps takes no time, but something happens ``during`` it."""
    now, answer = 0.0, None
    try:
        while True:
            step = steps.send(answer)
            if isinstance(step, Request):
                answer = client.execute_command(*step.args)
            elif isinstance(step, Sleep):
                now += step.seconds or 0.01
                answer = during()
            else:
                answer = now
    except StopIteration as end:
        return end.value


def body(number: int) -> bytes:
    return b'{"id":%d}' % number


# --- the ends ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ("abc", "abc", 0),
        ("abc", "xab", 1),
        ("abc", "xyzabc", 3),
        ("abcd", "bcde", -1),
        ("abcd", "d", -3),
        ("abc", "ab", 0),  # the other end of a short list
        ("abc", "xyz", None),
        ("abc", "", None),
        ("", "abc", None),
        ("aaa", "aaaa", 0),
        ("abab", "baba", None),
    ],
)
def test_two_looks_at_an_end_say_what_moved(before: str, after: str, moved: int | None) -> None:
    looks = [[each.encode() for each in look] for look in (before, after)]
    assert shift(looks[0], looks[1]) == moved


@pytest.mark.parametrize("push", ["lpush", "rpush"])
@pytest.mark.parametrize("take", ["lpop", "rpop"])
def test_the_ends_in_use_are_seen_at_the_list(
    client: redis.Redis, name: str, push: str, take: str
) -> None:
    numbers = iter(range(1000))
    for _ in range(20):
        client.rpush(name, body(next(numbers)))

    def work() -> None:
        if (number := next(numbers)) % 2:
            getattr(client, push)(name, body(number))
        else:
            getattr(client, take)(name)

    traffic = run(watch(name.encode(), 1.0, 50), client, work)
    ends = {"l": traffic.left, "r": traffic.right}
    assert ends[push[0]].pushed == ends[take[0]].taken == traffic.readings // 2 == 10
    assert sum(end.pushed + end.taken for end in ends.values()) == traffic.readings
    assert traffic.lengths == (20, 20)


def test_equal_bodies_and_a_list_that_runs_empty_are_unclear(
    client: redis.Redis, name: str
) -> None:
    def work() -> None:
        client.lpush(name, "ping")
        client.rpop(name)

    client.lpush(name, *["ping"] * 5)
    still = run(watch(name.encode(), 0.3, 4), client, work)
    assert (still.left.pushed, still.right.taken) == (0, 0)
    client.delete(name)
    numbers = iter(range(1000))

    def fill_and_empty() -> None:
        client.delete(name) if client.exists(name) else client.lpush(name, next(numbers))

    empty = run(watch(name.encode(), 0.3, 4), client, fill_and_empty)
    assert empty.left.unclear == empty.right.unclear == empty.readings


def test_watching_a_list_of_long_bodies_reads_none(client: redis.Redis, name: str) -> None:
    client.lpush(name, b"x")
    traffic = run(
        watch(name.encode(), 0.3, MAX_BYTES + 1), client, lambda: client.lpush(name, b"y")
    )
    assert not traffic.read
    assert traffic.lengths == (1, 1 + traffic.readings)
    assert (traffic.left.pushed, traffic.left.unclear) == (0, 0)


# --- the messages -----------------------------------------------------------------


def test_a_sample_is_bounded_in_messages_and_in_bytes(client: redis.Redis, name: str) -> None:
    client.rpush(name, *map(body, range(3 * bodies.ENTRIES)))
    found = run(sample(name.encode(), 3 * bodies.ENTRIES), client)
    assert found.read == found.with_id == bodies.ENTRIES
    assert found.repeated_ids == 0
    client.delete(name)
    client.rpush(name, *[b"x" * 100_000] * 60)
    found = run(sample(name.encode(), 60), client)
    assert bodies.BUDGET <= found.bytes < 3 * bodies.BUDGET


def test_a_short_list_is_read_once_from_end_to_end(client: redis.Redis, name: str) -> None:
    client.rpush(name, *map(body, range(7)))
    found = run(sample(name.encode(), 7), client)
    assert (found.read, found.repeated_ids, found.repeated_bodies) == (7, 0, 0)


def test_ids_are_judged_as_a_pop_would() -> None:
    found = summary_of(
        [
            b'{"id":"a"}',
            b'{"n":1,"id":"a"}',
            b'{"id":""}',
            b'{"id":null,"uuid":1}',
            b"[1]",
            b"\xff",
            b'{"id":7}',
            b'{"id":7}',
            b'{"id":1.5}',
        ]
    )
    assert (found.read, found.objects, found.with_id) == (9, 7, 4)
    assert (found.repeated_ids, found.repeated_bodies) == (2, 1)
    assert found.other_id is None
    assert summary_of([b'{"uuid":"a"}', b'{"uuid":"b","id":""}']).other_id == "uuid"


def test_messages_of_another_queue_system_are_recognised() -> None:
    celery = {"body": "", "headers": {}, "properties": {}, "content-type": "application/json"}
    sidekiq = {"class": "A", "args": [], "jid": "b", "created_at": 1.0}
    assert summary_of([json.dumps(celery).encode()]).system == "Celery"
    assert summary_of([json.dumps(sidekiq).encode()] * 2).system == "Sidekiq"
    assert summary_of([json.dumps(sidekiq).encode(), b'{"id":1}']).system is None
    assert summary_of([]).system is None


# --- beside the list --------------------------------------------------------------


def test_processing_lists_are_found_by_their_names(client: redis.Redis, token: str) -> None:
    name = f"{token}[1]"  # which SCAN must not take for a pattern
    for other in (
        f"{name}:processing",
        f"worker-7:{name}",
        f"{name}:notes",
        f"{name}HANDOFF",
        f"{name}CLAIM:worker:1",
        f"{token}1:processing",
    ):
        client.rpush(other, 1, 2)
    client.set(f"{name}:processing:lock", 1)
    found = run(processing_lists(name.encode()), client)
    assert found.lists == {f"{name}:processing".encode(): 2, f"worker-7:{name}".encode(): 2}
    assert found.complete


@pytest.mark.parametrize("lists", ["processing", "other"])
def test_the_search_for_processing_lists_ends(
    client: redis.Redis, token: str, monkeypatch: pytest.MonkeyPatch, lists: str
) -> None:
    monkeypatch.setattr(neighbours, "SCANNED", 1)
    with client.pipeline() as pipe:
        for number in range(300):
            pipe.rpush(f"{token}:{lists}:{number}", 1)
        pipe.execute()
    found = run(processing_lists(token.encode()), client)
    assert not found.complete
    assert len(found.lists) <= neighbours.MAX_NEIGHBOURS


# --- the clients ------------------------------------------------------------------


def test_clients_are_grouped_by_their_latest_list_command() -> None:
    lines = (
        "id=3 addr=10.0.0.1:5 name=web db=0 flags=N cmd=lpush\n"
        "id=4 addr=10.0.0.1:6 name= db=0 flags=N cmd=lpush\n"
        "id=5 addr=[::1]:6 name= db=0 flags=b cmd=brpop\n"
        "id=6 addr=10.0.0.2:6 name= db=1 flags=N cmd=rpush\n"
        "id=7 addr=10.0.0.2:6 name= db=0 flags=N cmd=get\n"
    )
    found: dict[str, Users] = {}
    for _ in range(2):
        note(found, lines.encode(), 0)
    assert found == {
        "lpush": Users({"3", "4"}, set(), ["10.0.0.1"], ["web"]),
        "brpop": Users({"5"}, {"5"}, ["[::1]"], []),
    }


@pytest.fixture
def blocked(client: redis.Redis, name: str) -> Iterator[redis.Redis]:
    """A consumer that waits in BRPOP."""
    settings = client.connection_pool.connection_kwargs
    consumer = redis.Redis(
        **{key: settings[key] for key in ("host", "port", "path") if key in settings},
        client_name="w-1",
    )
    thread = threading.Thread(target=consumer.brpop, args=(name,))
    thread.start()
    wait_until(
        lambda: any(
            each["name"] == "w-1" and each["cmd"] == "brpop" for each in client.client_list()
        ),
        "the consumer to wait",
    )
    yield consumer
    client.lpush(name, "end")
    thread.join()
    consumer.close()


@pytest.mark.usefixtures("blocked")
def test_a_waiting_consumer_shows_where_an_empty_list_is_used(
    client: redis.Redis, name: str
) -> None:
    survey = surveyed(client, name)
    assert survey.kind == "none"
    assert survey.clients is not None
    assert len(survey.clients["brpop"].blocked) >= 1
    assert "w-1" in survey.clients["brpop"].names


# --- the whole --------------------------------------------------------------------


def surveyed(client: redis.Redis, name: str, seconds: float = 0.05) -> Survey:
    with Surveyor(client, name) as surveyor:
        return surveyor.survey(seconds)


def test_a_survey_reports_the_list_and_what_lies_beside_it(client: redis.Redis, name: str) -> None:
    with Queue(client, name) as queue:
        queue.push_many([{"id": number} for number in range(5)])
        queue.pop()
        client.expire(name, 1000)
        survey = surveyed(client, name)
        assert (survey.kind, survey.unseen) == ("list", [])
        assert 900 < (survey.expires_in or 0) <= 1000
        assert survey.stats is not None
        assert (survey.stats.ready, survey.stats.in_flight) == (4, 1)
        assert survey.side_keys == {
            f"{name}BACKUP".encode(): "zset",
            f"{name}CONTEXT".encode(): "hash",
        }
        assert survey.sample is not None
        assert survey.sample.read == 4
        assert (survey.memory or 0) > 0
        client.persist(name)
    assert surveyed(client, name).expires_in is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pop_from": "left"}, "popped from the left"),
        ({"groups": Groups("of")}, "with groups=Groups(field='of'"),
    ],
)
def test_a_queue_with_recorded_settings_is_counted(
    client: redis.Redis, name: str, settings: dict[str, Any], words: str
) -> None:
    with Queue(client, name, **settings) as queue:
        queue.push_many([{"id": number, "of": "a"} for number in range(5)])
        queue.pop()
        survey = surveyed(client, name)
    assert settings.items() <= survey.recorded.items()
    assert survey.stats is not None
    assert (survey.stats.ready, survey.stats.in_flight) == (4, 1)
    findings = {finding.check: finding for finding in advise(survey).findings}
    assert findings["keys of ackq"].verdict == "ok"
    assert words in findings["keys of ackq"].text


def test_a_side_key_of_another_type_is_reported_and_stops_nothing(
    client: redis.Redis, name: str
) -> None:
    client.set(f"{name}BACKUP", "mine")
    survey = surveyed(client, name)
    assert survey.side_keys == {f"{name}BACKUP".encode(): "string"}
    assert survey.stats is None


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[redis.Redis]:
    """The administrator of a server of this test's own."""
    with private_server(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.rpush("jobs", *map(body, range(100)))
        client.rpush("jobs:processing", "x")
        with Queue(client, "jobs") as queue:
            queue.pop()
        yield client


def user(admin: redis.Redis, *words: str) -> redis.Redis:
    admin.execute_command("ACL", "SETUSER", "someone", "reset", "on", ">c4n4ry", *words)
    port = admin.connection_pool.connection_kwargs["port"]
    return redis.Redis(port=port, username="someone", password="c4n4ry")


def test_a_user_with_read_access_sees_all_and_changes_nothing(admin: redis.Redis) -> None:
    before = {key: admin.dump(key) for key in admin.scan_iter()}
    allowed = (
        "~*",
        "-@all",
        "+@read",
        "+info",
        "+client|list",
        "+evalsha",
        "+eval",
        "+time",
        "+hello",
    )
    with user(admin, *allowed) as reader:
        survey = surveyed(reader, "jobs")
    assert survey.unseen == []
    assert survey.stats is not None
    assert {key: admin.dump(key) for key in admin.scan_iter()} == before


def test_what_a_user_may_not_see_is_named_and_the_rest_is_seen(admin: redis.Redis) -> None:
    with user(admin, "~jobs", "-@all", "+@read", "+hello") as reader:
        survey = surveyed(reader, "jobs")
    assert survey.sample is not None
    assert survey.search is not None
    assert survey.search.lists == {b"jobs:processing": None}
    others = ["INFO", "INFO commandstats", "CLIENT LIST", "TYPE of ackq's keys"]
    assert survey.unseen == others
    with user(admin, "-@all", "+hello") as nobody:
        survey = surveyed(nobody, "jobs")
    assert survey.kind is None
    assert "TYPE" in survey.unseen
