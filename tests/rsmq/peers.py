"""Every implementation behind one interface, so that each test can swap them."""

import json
import subprocess
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import redis
from rsmq import RedisSMQ
from rsmq.cmd.exceptions import NoMessageInQueue, QueueAlreadyExists, QueueDoesNotExist

from ackq.rsmq import RSMQError, RSMQMessage

DRIVER = Path(__file__).parent / "peer.js"
#: Fields of a message that every implementation returns.
Fields = dict[str, Any]


class PeerError(Exception):
    """An error under the name that the original gives it."""


class Peer(Protocol):
    """One implementation on one namespace."""

    def create(self, qname: str, **settings: int) -> None: ...
    def names(self) -> set[str]: ...
    def drop(self, qname: str) -> None: ...
    def attributes(self, qname: str) -> dict[str, Any]: ...
    def change(self, qname: str, **settings: int) -> dict[str, Any]: ...
    def send(self, qname: str, message: str, delay: int | None = None) -> str: ...
    def receive(self, qname: str, vt: int | None = None) -> Fields | None: ...
    def pop(self, qname: str) -> Fields | None: ...
    def delete(self, qname: str, id: str) -> bool: ...
    def show(self, qname: str, id: str, vt: int) -> bool: ...
    def close(self) -> None: ...


class Ours:
    """ackq, either face."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def create(self, qname: str, **settings: int) -> None:
        self._call("create_queue", qname, **settings)

    def names(self) -> set[str]:
        return set(self.client.list_queues())

    def drop(self, qname: str) -> None:
        self._call("delete_queue", qname)

    def attributes(self, qname: str) -> dict[str, Any]:
        return _fields(self._call("get_queue_attributes", qname))

    def change(self, qname: str, **settings: int) -> dict[str, Any]:
        return _fields(self._call("set_queue_attributes", qname, **settings))

    def send(self, qname: str, message: str, delay: int | None = None) -> str:
        return str(self._call("send_message", qname, message, delay))

    def receive(self, qname: str, vt: int | None = None) -> Fields | None:
        return self._fields(self._call("receive_message", qname, vt))

    def pop(self, qname: str) -> Fields | None:
        return self._fields(self._call("pop_message", qname))

    def delete(self, qname: str, id: str) -> bool:
        return bool(self._call("delete_message", qname, id))

    def show(self, qname: str, id: str, vt: int) -> bool:
        return bool(self._call("change_message_visibility", qname, id, vt))

    def close(self) -> None:
        self.client.close()

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self.client, name)(*args, **kwargs)
        except RSMQError as error:
            name = type(error).__name__
            raise PeerError(name[0].lower() + name[1:]) from error

    def _fields(self, found: RSMQMessage | None) -> Fields | None:
        if found is None:
            return None
        return {"id": found.id, "message": found.message, "rc": found.rc, "fr": found.fr}


class Python:
    """PyRSMQ."""

    def __init__(self, url: str, ns: str) -> None:
        self.connection = redis.Redis.from_url(url, decode_responses=True)
        self.client = RedisSMQ(client=self.connection, ns=ns)

    def create(self, qname: str, **settings: int) -> None:
        self._call("createQueue", qname=qname, **settings)

    def names(self) -> set[str]:
        return set(self._call("listQueues"))

    def drop(self, qname: str) -> None:
        self._call("deleteQueue", qname=qname)

    def attributes(self, qname: str) -> dict[str, Any]:
        return dict(self._call("getQueueAttributes", qname=qname))

    def change(self, qname: str, **settings: int) -> dict[str, Any]:
        return dict(self._call("setQueueAttributes", qname=qname, **settings))

    def send(self, qname: str, message: str, delay: int | None = None) -> str:
        return str(self._call("sendMessage", qname=qname, message=message, delay=delay))

    def receive(self, qname: str, vt: int | None = None) -> Fields | None:
        return self._fields(self._call("receiveMessage", qname=qname, vt=vt))

    def pop(self, qname: str) -> Fields | None:
        return self._fields(self._call("popMessage", qname=qname))

    def delete(self, qname: str, id: str) -> bool:
        return bool(self._call("deleteMessage", qname=qname, id=id))

    def show(self, qname: str, id: str, vt: int) -> bool:
        return bool(self._call("changeMessageVisibility", qname=qname, id=id, vt=vt))

    def close(self) -> None:
        self.connection.close()

    def _call(self, name: str, **kwargs: Any) -> Any:
        try:
            return getattr(self.client, name)(**kwargs).execute()
        except NoMessageInQueue:
            return None
        except QueueDoesNotExist as error:
            raise PeerError("queueNotFound") from error
        except QueueAlreadyExists as error:
            raise PeerError("queueExists") from error

    def _fields(self, found: dict[str, Any] | None) -> Fields | None:
        if found is None:
            return None
        noted = dict(found)
        noted["fr"] = noted.pop("ts")
        return noted


class Node:
    """A Node.js process that has the original. It serves many tests: its start takes long."""

    def __init__(self, package: Path) -> None:
        self.process = subprocess.Popen(
            ["node", DRIVER, package], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._one_at_a_time = Lock()

    def ask(self, **request: Any) -> Any:
        """Return the result of one request; see peer.js."""
        assert self.process.stdin
        assert self.process.stdout
        with self._one_at_a_time:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            reply = json.loads(self.process.stdout.readline())
        if "error" in reply:
            raise PeerError(reply["error"])
        return reply.get("result")

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class JavaScript:
    """The original."""

    def __init__(self, node: Node, url: str, ns: str, realtime: bool = False) -> None:
        settings = redis.ConnectionPool.from_url(url).connection_kwargs
        self.node = node
        self.client = node.ask(
            open={
                "host": settings["host"],
                "port": settings["port"],
                "ns": ns,
                "realtime": realtime,
            }
        )

    def call(self, method: str, **options: Any) -> Any:
        """Return what the original's own method returns."""
        given = {name: value for name, value in options.items() if value is not None}
        return self.node.ask(client=self.client, method=method, options=given or None)

    def create(self, qname: str, **settings: int) -> None:
        self.call("createQueue", qname=qname, **settings)

    def names(self) -> set[str]:
        return set(self.call("listQueues"))

    def drop(self, qname: str) -> None:
        self.call("deleteQueue", qname=qname)

    def attributes(self, qname: str) -> dict[str, Any]:
        return dict(self.call("getQueueAttributes", qname=qname))

    def change(self, qname: str, **settings: int) -> dict[str, Any]:
        return dict(self.call("setQueueAttributes", qname=qname, **settings))

    def send(self, qname: str, message: str, delay: int | None = None) -> str:
        return str(self.call("sendMessage", qname=qname, message=message, delay=delay))

    def receive(self, qname: str, vt: int | None = None) -> Fields | None:
        return self._fields(self.call("receiveMessage", qname=qname, vt=vt))

    def pop(self, qname: str) -> Fields | None:
        return self._fields(self.call("popMessage", qname=qname))

    def delete(self, qname: str, id: str) -> bool:
        return bool(self.call("deleteMessage", qname=qname, id=id))

    def show(self, qname: str, id: str, vt: int) -> bool:
        return bool(self.call("changeMessageVisibility", qname=qname, id=id, vt=vt))

    def close(self) -> None:
        self.node.ask(client=self.client, method="quit")

    def _fields(self, found: Fields) -> Fields | None:
        return {name: found[name] for name in ("id", "message", "rc", "fr")} if found else None


def _fields(attributes: Any) -> dict[str, Any]:
    return {name: getattr(attributes, name) for name in attributes.__slots__}
