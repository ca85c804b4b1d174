"""Users with a role, on each plain server of this machine."""

import contextlib
import secrets
from collections.abc import Callable, Iterator

import pytest
import redis

from ackq import Queue
from ackq.config import PopFrom
from ackq.ops.acl import rules
from tests.conftest import asked_for, survey_of
from tests.servers import Fleet, Target

#: ``as_role("consumer", "jobs")``: a client that is that user of queue jobs.
AsRole = Callable[..., redis.Redis]
PLAIN = ("oldest", "debian", "newest", "container")
#: The oldest server has no selectors.
USUALLY = ("oldest", "newest")


def has_selectors(admin: redis.Redis) -> bool:
    """Whether the server grants pairs of commands and keys."""
    return int(admin.info("server")["redis_version"].split(".")[0]) >= 7


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on a server with selectors and on one without; on every plain one if asked for."""
    if "server" not in metafunc.fixturenames:
        return
    here = [each for each in PLAIN if each in survey_of(metafunc.config).offers]
    if not asked_for():
        here = [each for each in USUALLY if each in here] or here
    metafunc.parametrize("server", here, indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest, fleet: Fleet) -> Target:
    """One plain server after the other."""
    return fleet.get(request.param)


@pytest.fixture
def admin(server: Target) -> Iterator[redis.Redis]:
    """A client that may do everything."""
    with contextlib.closing(server.make_client()) as client:
        assert isinstance(client, redis.Redis)
        yield client


@pytest.fixture
def as_role(admin: redis.Redis) -> Iterator[AsRole]:
    """Make users; they are gone after the test."""
    password = secrets.token_hex()
    with contextlib.ExitStack() as stack:

        def make(
            role: str,
            queue: str,
            *,
            eval: bool = True,
            pop_from: PopFrom = "right",
            kind: str = "list",
            partitions: int | None = None,
            grouped: bool = False,
        ) -> redis.Redis:
            user = f"{queue}-{role}"
            selectors = has_selectors(admin)
            words = rules(
                queue,
                role,
                eval=eval,
                selectors=selectors,
                pop_from=pop_from,
                kind=kind,
                partitions=partitions,
                grouped=grouped,
            )
            admin.execute_command("ACL", "SETUSER", user, *words, f">{password}")
            stack.callback(admin.acl_deluser, user)
            settings = admin.connection_pool.connection_kwargs
            where = {key: settings[key] for key in ("host", "port", "path") if key in settings}
            client = redis.Redis(**where, username=user, password=password)
            stack.callback(client.close)
            return client

        yield make


def denied(admin: redis.Redis, user: str) -> list[str]:
    """Return the commands that the server denied a user, without redis-py's CLIENT SETINFO."""
    objects = [str(each["object"]) for each in admin.acl_log() if each["username"] == user]
    return [each for each in objects if not each.startswith("client")]


@pytest.fixture
def stocked(admin: redis.Redis, name: str) -> Iterator[Queue]:
    """A queue with a little of everything, on the administrator's connection."""
    with Queue(admin, name) as queue:
        stock(queue)
        yield queue


def stock(queue: Queue) -> None:
    """Put a little of everything into the queue: ready, in flight, delayed and dead."""
    queue.purge(dead=True)
    queue.push_many([{"id": each} for each in "abcdefgh"])
    queue.push({"id": "later"}, delay=600)
    queue.reject(*queue.pop_many(2))
    queue.pop()
