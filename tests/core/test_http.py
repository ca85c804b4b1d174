"""The server of figures, and clients that are gone."""

import contextlib
import socket
import struct
import sys
import threading
from typing import Any

import pytest

from ackq.core.io.http import Answer, HttpServer


@pytest.mark.parametrize("request_", [b"", b"GET / HT", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_client_that_resets_its_connection_leaves_no_traceback(request_: bytes) -> None:
    ended = threading.Event()
    answers = threading.Event()
    errors: list[Any] = []

    class Watched(HttpServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            errors.append(sys.exception())

        def shutdown_request(self, request: Any) -> None:
            super().shutdown_request(request)
            ended.set()

    def answer(*request: Any) -> Answer:
        answers.wait(20)
        return Answer(200, b"x" * 10_000_000)

    server = Watched(("127.0.0.1", 0), answer, 60.0, "test")
    server.start()
    with contextlib.closing(socket.create_connection(server.address)) as client:
        client.sendall(request_)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    answers.set()
    assert ended.wait(20)
    server.stop()
    assert errors == []
