"""A server with the interface of a schema registry, as far as consumers use it."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class Registry:
    """Its address, what it answers, and what it was asked."""

    url: str = ""
    #: Replies by path; a number is the status of an error.
    replies: dict[str, Any] = field(default_factory=dict)
    #: The paths of all requests, with their queries.
    requests: list[str] = field(default_factory=list)
    #: Requests that fail before the others are answered.
    failures: int = 0
    #: The user and the password that it wants.
    login: str | None = None

    def add(self, number: int, schema: Any, **others: Any) -> None:
        """Register a schema."""
        self.replies[f"/schemas/ids/{number}"] = {"schema": schema, **others}


@contextmanager
def registry() -> Iterator[Registry]:
    """Run a registry on a free port."""
    made = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.requests.append(self.path)
            reply = made.replies.get(unquote(urlsplit(self.path).path), 404)
            if made.login is not None:
                wanted = base64.b64encode(made.login.encode()).decode()
                if self.headers.get("Authorization") != f"Basic {wanted}":
                    reply = 401
            if made.failures:
                made.failures -= 1
                if made.failures % 2:
                    self.wfile.write(b"no HTTP\n")
                    return
                reply = 503
            if isinstance(reply, int):
                self.send_response(reply)
                reply = {"error_code": 40403, "message": "Schema not found"}
            else:
                self.send_response(200)
            content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
