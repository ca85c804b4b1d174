"""The server that tests use: the one they name, or a private one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from ackq.core.client import client_of
from ackq.core.effects import Operation, Request
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.names import literal
from ackq.embedded import Server
from ackq.errors import ConfigurationError
from ackq.queue.spec import QueueSpec

#: Names the server of the tests: a URL as in `redis.Redis.from_url`.
VARIABLE = "ACKQ_TEST_URL"
#: Removes the process $1 and the folder $2 when its standard input is closed.
REMOVE = 'read -r _; kill -9 "$1"; rm -rf "$2"'
#: The key by which a database says that it is for tests.
MARKER = "ackq-test"
#: Its value on a private server: this, and the run id, which no other server has, nor a copy.
PRIVATE = b"private:"
#: How the names of queues begin that tests may use on a server that is not private.
PREFIX = "test-"


@contextmanager
def server_url() -> Iterator[str]:
    """The URL of a Redis for tests: ``$ACKQ_TEST_URL``, else a private server that ends here.

    `drain` and `assert_pushed` accept any queue of the private server. Of the one that the variable
    names, they accept queues whose names begin with ``test-``.

    The private server also ends when this process is killed.

    Of the server that the variable names, only a database for tests is accepted: one that is empty
    or has the key ``ackq-test``. An empty one gets that key and keeps it.

    Raises:
        ConfigurationError: the database holds keys, and none of them says that it is for tests.
        ServerNotFound: the variable is not set, and no redis-server was found.
    """
    if url := os.environ.get(VARIABLE):
        with client_of(url) as client:
            _check_for_tests(client)
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="ackq-test-") as folder:
        server = Server(folder, options={"save": "", "appendonly": "no"})
        server.start()
        with client_of(server.url) as client:
            client.set(MARKER, PRIVATE + client.info("server")["run_id"].encode())
        # Its standard input closes when this process ends, however it ends.
        watch = subprocess.Popen(
            ["sh", "-c", REMOVE, "sh", str(server.pid), folder],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            yield server.url
        finally:
            watch.kill()
            watch.communicate()
            server.kill()


def check(spec: QueueSpec) -> Operation[None]:
    """Check that a queue is a test's; see `check_name`."""
    return check_name(spec.name)


def check_name(name: str) -> Operation[None]:
    """Check that a queue of this name is a test's. Only two reads are sent.

    It is, whatever its name, on a private server of `server_url`; and if its name begins with
    ``test-``, in a database that has the key ``ackq-test``.

    Raises:
        ConfigurationError: it is not.
    """
    try:
        marker = yield Request((b"GET", MARKER), resend=True)
    except redis.ResponseError:  # such as MOVED, or NOPERM
        marker = None
    if marker and marker.startswith(PRIVATE):
        info = yield Request((b"INFO", b"server"), resend=True)
        if b"run_id:" + marker.removeprefix(PRIVATE) + b"\r\n" in info:
            return
    if not marker:
        why = f"its database has no key {MARKER!r}"
    elif not name.lstrip("{").startswith(PREFIX):
        why = f"its name does not begin with {PREFIX!r}, as on every server that tests share"
    else:
        return
    raise ConfigurationError(
        f"queue {name!r} is not a test's, so it is left alone: {why}. Take a queue of the"
        f" fixture ackq_queue, or connect tasks by the fixture ackq_tasks"
    )


def delete(client: redis.Redis, queue: str) -> None:
    """Delete a queue with everything that belongs to it, whatever its kind.

    Args:
        client: a blocking client for the queue's server.
        queue: its name. Names that begin with it and continue with a colon are deleted too.

    Raises:
        ConfigurationError: the queue is not a test's, so nothing was deleted; see `server_url`.
    """
    Driver(route_of(client, b"")).run(check_name(queue))
    name = queue.encode()
    pattern = literal(name) + b"*"
    matching = (
        key if isinstance(key, bytes) else key.encode() for key in client.scan_iter(pattern)
    )
    keys = [key for key in matching if (after := key[len(name) :][:1]) in b":" or after.isupper()]
    if keys:
        client.unlink(*keys)


def _check_for_tests(client: redis.Redis) -> None:
    if (keys := client.dbsize()) and not client.exists(MARKER):
        raise ConfigurationError(
            f"${VARIABLE} names a database with {keys} keys that may not be for tests, so it is"
            f" left alone: name an empty one, such as …/15, or run SET {MARKER} 1 in this one"
        )
    client.set(MARKER, "for tests: ackq.testing may delete keys here")
