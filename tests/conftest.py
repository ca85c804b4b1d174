"""Fixtures: servers, queue names, queues of both flavours, and the check for leaked keys.

``target`` runs a test of the conformance suite on every server that this machine has, and any
other on an old Redis and on a cluster; ``ACKQ_TEST_SERVERS=debian,tls`` says on which instead.
``flavour`` runs it on the synchronous and the asynchronous API.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.metadata
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import hypothesis
import pytest
import redis
import redis.backoff

import ackq.embedded.binaries
import ackq.embedded.server
from ackq import AsyncQueue, Message, Queue
from ackq.embedded import server_release
from tests import reaper
from tests.compiled import compile_modules
from tests.facade import AsSync, Portal
from tests.left_open import is_open, left_open, watch
from tests.scheduling import FilesInParts
from tests.servers import CLUSTERS, OFFERS, PLAIN, Client, Fleet, Survey, Target, known_commands
from tests.servers import free_port as find_free_port
from tests.spark import home as spark_home
from tests.waiting import wait_until

#: The reaper of this process, once it runs tests.
REAPERS: list[subprocess.Popen[bytes]] = []

pytest_plugins = ["pytester", "tests.interleaving", "tests.examples"]

#: Where tests run on every server: connections, TLS, failover are the same for all that ackq has.
CONFORMANCE = "tests.queue.conformance"
EVERYWHERE = (CONFORMANCE, "tests.servers")
#: Where the others run: what differs for a script is the version, and declared keys.
USUALLY = ("oldest", "cluster")
#: Servers that every test process starts. The others would mostly be idle there, which takes a
#: tenth of a processor in all: one process has them.
OFTEN = (*USUALLY, "newest")
ONE_PROCESS = pytest.mark.xdist_group("servers")

# Every driver has them, in this process or in one that a test starts.
for _name, _value in spark_home.environment().items():
    os.environ.setdefault(_name, _value)

# A test that names no server must not reach this account's server or the developer's.
os.environ["ACKQ_REDIS_URL"] = "redis://a-test-names-its-server.invalid"

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("ackq", deadline=None)
hypothesis.settings.load_profile("ackq")

# redis-py reads its own version again for each connection, which takes longer than to connect.
importlib.metadata.version = functools.cache(importlib.metadata.version)
known_commands.remember()
# Nor does a server change its version meanwhile, and hundreds are started.
for _module in (ackq.embedded.binaries, ackq.embedded.server):
    setattr(_module, "server_release", functools.cache(server_release))  # noqa: B010
watch()

#: Servers that answer as others do, and only are reached in another way, which is the same for all
#: requests. There the conformance suite runs the tests that are marked `every_route`.
OTHER_ROUTES = ("tls", "sentinel", "valkey-cluster", "valkey-sentinel")
#: Servers that asyncio reaches as it reaches another: a plain one, a cluster or a Sentinel.
SAME_ROUTE = ("debian", "container", "valkey", "valkey-cluster", "valkey-sentinel")
#: Products whose blocking clients are generated from the asyncio ones, and whose routes to a server
#: are those that the conformance suite shows: asyncio on a plain server, blocking on a cluster.
GENERATED = ("tests.delay", "tests.topic", "tests.rsmq", "tests.staging")

#: Packages that the processes of tests do not find, so that they start sooner.
WITHOUT = Path(__file__).parent / "without"
ROOT = Path(__file__).parent.parent

#: Folders and files whose tests take longest. They run first and are handed out one by one, so that
#: no process is busy alone at the end.
LONGEST = (
    "tests/queue/model",
    "tests/process",
    "tests/campaign/test_campaign.py",
    "tests/test_demo.py",
    "tests/test_benchmarks.py",
    "tests/staging/test_interleavings.py",
    "tests/topic/test_kills.py",
    "tests/rsmq/test_machine.py",
    "tests/worker/test_shutdown.py",
    "tests/faults/test_failover.py",
    "tests/cli/test_processes.py",
    "tests/cli/test_tools.py",
    "tests/test_readme.py",
)

_SURVEY = pytest.StashKey[Survey]()


def pytest_configure(config: pytest.Config) -> None:
    # pytest 9.1 forgets the conftest.py of a folder if a file above the folder is named between two
    # of its files (pytest#14971).
    config.args.sort(key=_depth)
    gc.disable()  # the thousands of tests that are collected live to the end
    # What a shell started in the background ignores Ctrl-C, and so would the processes of tests.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = asked_for()
    unknown = set(wanted) - set(OFFERS)
    if unknown:
        raise pytest.UsageError(f"ACKQ_TEST_SERVERS: {unknown} is none of {', '.join(OFFERS)}")
    survey = Survey(wanted or list(OFFERS))
    if wanted and survey.absent:
        raise pytest.UsageError(f"ACKQ_TEST_SERVERS asks for what is not here: {survey.absent}")
    if not survey.offers:
        raise pytest.UsageError(f"no Redis to test on: {survey.absent}")
    config.stash[_SURVEY] = survey


def _depth(argument: str) -> tuple[int, bool]:
    path = Path(argument.partition("::")[0]).absolute()
    return len(path.parts), path.is_dir()


def survey_of(config: pytest.Config) -> Survey:
    """Return what this machine has."""
    return config.stash[_SURVEY]


@pytest.fixture(scope="session", autouse=True)
def _watched(tmp_path_factory: pytest.TempPathFactory) -> None:
    """If this process is killed, a reaper ends the servers and processes that it started."""
    mark = uuid.uuid4().hex
    REAPERS.append(reaper.watch(tmp_path_factory.getbasetemp(), mark))
    os.environ[reaper.VARIABLE] = mark


def pytest_unconfigure() -> None:
    while REAPERS:
        REAPERS.pop().communicate()


def pytest_report_header(config: pytest.Config) -> list[str]:
    return survey_of(config).header()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        offers = survey_of(metafunc.config).offers
        if not metafunc.module.__name__.startswith(EVERYWHERE) and not asked_for():
            offers = {kind: offers[kind] for kind in USUALLY if kind in offers} or offers
        if metafunc.module.__name__.startswith(CONFORMANCE) and not asked_for():
            reached = metafunc.definition.get_closest_marker("every_route") is not None
            offers = {
                kind: each for kind, each in offers.items() if reached or kind not in OTHER_ROUTES
            }
        if _needs_no_server(metafunc.definition) or (
            metafunc.definition.get_closest_marker("one_server") is not None
        ):
            offers = dict(list(offers.items())[:1])
        # Not by session scope: pytest would stop a server whenever the next test wants another.
        often = (*OFTEN, *asked_for())
        targets = [
            pytest.param(kind, id=offer.name, marks=() if kind in often else ONE_PROCESS)
            for kind, offer in offers.items()
        ]
        metafunc.parametrize("target", targets, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put groups and the longest tests first; leave out flavours that other tests stand for."""
    items.sort(
        key=lambda item: (
            not (item.get_closest_marker("xdist_group") or item.nodeid.startswith(LONGEST))
        )
    )
    if asked_for():
        return
    survey = survey_of(config)
    left_out = [
        item for item in items if isinstance(item, pytest.Function) and _is_shown(item, survey)
    ]
    if left_out:
        dropped = set(left_out)
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("numprocesses", None):
        compile_modules(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesInParts | None:
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # the tests are in order
    return FilesInParts(config, log, alone=LONGEST)


def pytest_collection_finish() -> None:
    gc.freeze()  # nor are they walked again
    gc.enable()


def _is_shown(item: pytest.Function, survey: Survey) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    flavour, target = params.get("flavour"), params.get("target")
    module = item.module.__name__
    if flavour == "sync" and module.startswith(CONFORMANCE):
        return target == "newest" and target != survey.first(PLAIN)
    if flavour == "sync":
        both = "cluster" in survey.offers and not _needs_no_server(item)
        return both and target == survey.first(PLAIN) and module.startswith(GENERATED)
    if flavour != "async":
        return False
    if module.startswith(CONFORMANCE):
        # What a server answers differently shows in one flavour. So asyncio runs on one server of
        # each way to connect, and on the newest, where blocking clients do not.
        return target in SAME_ROUTE and target != survey.first(PLAIN)
    return target == "cluster" and not module.startswith(EVERYWHERE)


def _needs_no_server(item: pytest.Function) -> bool:
    return item.get_closest_marker("refused_by_the_client") is not None


def asked_for() -> list[str]:
    """Return the servers that ACKQ_TEST_SERVERS names."""
    asked = os.environ.get("ACKQ_TEST_SERVERS", "")
    return [kind.strip() for kind in asked.split(",") if kind.strip()]


@pytest.fixture(scope="session", autouse=True)
def quick_processes() -> Iterator[None]:
    """Let the processes that tests start do without OpenTelemetry.

    They run the code of this checkout, wherever the environment has ackq from.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{WITHOUT}{os.pathsep}{ROOT}", prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def survey(pytestconfig: pytest.Config) -> Survey:
    """What this machine has."""
    return survey_of(pytestconfig)


@pytest.fixture(scope="session")
def fleet(survey: Survey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The servers of this session."""
    with contextlib.closing(Fleet(survey, tmp_path_factory.mktemp("servers"))) as fleet:
        yield fleet


@pytest.fixture
def target(request: pytest.FixtureRequest, fleet: Fleet) -> Target:
    """Each server that the run uses, one after the other."""
    return fleet.get(request.param)


@pytest.fixture
def plain_client(survey: Survey, fleet: Fleet) -> Iterator[redis.Redis]:
    """A plain client of one plain server, for tests that need no more than that."""
    kind = survey.first(PLAIN)
    if kind is None:
        pytest.skip("ACKQ_TEST_SERVERS names no plain server")
    client = fleet.get(kind).make_client()
    assert isinstance(client, redis.Redis)
    yield client
    client.close()


@pytest.fixture
def url(plain_client: redis.Redis) -> str:
    """The address of that server, also for other processes and for asyncio."""
    settings = plain_client.connection_pool.connection_kwargs
    if "path" in settings:
        return f"unix://{settings['path']}"
    return f"redis://{settings['host']}:{settings['port']}"


@pytest.fixture
def cluster(survey: Survey, fleet: Fleet) -> redis.RedisCluster:
    """A client of a whole cluster, for tests that need no other server."""
    kind = survey.first(CLUSTERS)
    if kind is None:
        pytest.skip("the run has no cluster")
    control = fleet.get(kind).control
    assert isinstance(control, redis.RedisCluster)
    return control


@pytest.fixture
def token() -> str:
    """A word that is in every key of this test, and in no other's."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def name(request: pytest.FixtureRequest, token: str) -> str:
    """A queue name of this test's own, with a hash tag where the server is a cluster."""
    if "target" not in request.fixturenames:
        return token
    target: Target = request.getfixturevalue("target")
    return f"{{{token}}}" if target.cluster else token


@pytest.fixture(autouse=True)
def no_open_connections() -> Iterator[None]:
    """Fail a test that leaves an asyncio connection open."""
    left_open()  # those of fixtures that serve more than one test
    yield
    if found := left_open():
        # A task that was cancelled at the end of the test may still be closing its own.
        wait_until(
            lambda: not any(map(is_open, found)),
            f"these connections to be closed: {found}",
            5,
        )


@pytest.fixture(autouse=True)
def no_leaked_keys(request: pytest.FixtureRequest, fleet: Fleet, token: str) -> Iterator[None]:
    """Delete the test's own keys; fail it when it leaves any other."""
    yield
    leaked = []
    used, fleet.used = fleet.used, []
    for target in used:
        if _count(target.control):
            # Keys that were to expire may be gone by now.
            if keys := list(target.control.scan_iter(count=1000)):
                target.control.unlink(*keys)
            leaked += [key for key in keys if token.encode() not in key]
    assert not leaked, f"keys without the test's name: {leaked[:10]}"


def _count(client: Client) -> int:
    if isinstance(client, redis.Redis):
        return int(client.dbsize())
    return int(client.dbsize(target_nodes=type(client).PRIMARIES))


@pytest.fixture
def free_port() -> int:
    """A loopback port that nothing listens on."""
    return find_free_port()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let redis-py reconnect without pauses: up to seven seconds where no server comes back."""
    monkeypatch.setattr(redis.backoff.ExponentialWithJitterBackoff, "compute", lambda *_: 0.0)


@pytest.fixture(scope="session")
def portal() -> Iterator[Portal]:
    """The event loop that asynchronous objects of this session live in."""
    with Portal() as portal:
        yield portal


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> str:
    """The API under test."""
    return str(request.param)


@pytest.fixture
def make_client(target: Target, flavour: str, portal: Portal) -> Iterator[Callable[[], Any]]:
    """``make_client()``: a client of the target in the test's flavour, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make() -> Any:
            if flavour == "sync":
                client: Any = target.make_client()
                stack.callback(client.close)
            else:
                client = portal.call(target.make_async_client)
                stack.callback(portal.call, client.aclose)
            return client

        yield make


if TYPE_CHECKING:

    class QueueUnderTest(Queue):
        """A queue whose ``pop`` finds a message: where it does not, the test fails anyway."""

        def pop(self, *args: Any, **settings: Any) -> Message: ...


class MakeQueue(Protocol):
    """The type of `make_queue`. An asynchronous queue has the type of its blocking twin, since
    `tests.facade.AsSync` lets a test call it like one."""

    def __call__(self, name: str = ..., **settings: Any) -> QueueUnderTest: ...


@pytest.fixture
def flavoured(flavour: str, portal: Portal) -> Iterator[Callable[..., Any]]:
    """``flavoured(Queue.from_url, AsyncQueue.from_url, url, name)``: what one of both returns.

    It is of the test's flavour, and closed after the test.
    """
    with contextlib.ExitStack() as stack:

        def make(
            blocking: Callable[..., Any], asynchronous: Callable[..., Any], *args: Any, **given: Any
        ) -> Any:
            if flavour == "sync":
                made = blocking(*args, **given)
            else:
                made = AsSync(portal, portal.call(asynchronous, *args, **given))
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def make_flavoured(
    make_client: Callable[[], Any], flavoured: Callable[..., Any]
) -> Callable[..., Any]:
    """``make_flavoured(Queue, AsyncQueue, name, **settings)``: one with a client of its own."""
    return lambda blocking, asynchronous, *args, **settings: flavoured(
        blocking, asynchronous, make_client(), *args, **settings
    )


@pytest.fixture
def make_queue(make_flavoured: Callable[..., Any], name: str) -> MakeQueue:
    """``make_queue(name=..., **settings)``: a queue, by default with the test's name."""
    return lambda name=name, **settings: make_flavoured(Queue, AsyncQueue, name, **settings)


@pytest.fixture
def queue(make_queue: MakeQueue) -> Any:
    """The queue of the test, without settings."""
    return make_queue()
