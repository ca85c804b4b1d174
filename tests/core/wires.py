"""Connections that lead nowhere, to look at what is done with connections and routes."""

import asyncio
from typing import Any


class Wire:
    """A blocking connection that notes what is done with it, and answers from a list."""

    def __init__(
        self,
        host: str = "h",
        port: int = 6379,
        socket_timeout: float | None = None,
        health_check_interval: float = 30,
        **settings: Any,
    ) -> None:
        self.host, self.port, self.settings = host, port, settings
        self.socket_timeout, self.health_check_interval = socket_timeout, health_check_interval
        self.next_health_check = 0.0
        self.is_open = self.waited_for_its_end = False
        self.done: list[Any] = []
        self.answers: list[Any] = []
        self.unread: Any = False
        self.refuses: BaseException | None = None

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    def opened(self) -> None:
        """Note that it connects; for subclasses."""

    def sent(self, command: Any) -> None:
        self.done.append(command)

    def answer(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def connect(self) -> Any:
        self.opened()
        self.done.append(("connect", self.socket_timeout, self.health_check_interval))
        if self.refuses is not None:
            raise self.refuses
        self.is_open = True

    def disconnect(self, nowait: bool = False) -> Any:
        self.done.append("disconnect")
        self.is_open = False

    def can_read(self, timeout: float = 1) -> Any:
        assert timeout == 0, "it would wait"
        if isinstance(self.unread, BaseException):
            raise self.unread
        return bool(self.unread)

    def pack_command(self, *args: Any) -> Any:
        return args

    def send_command(self, *args: Any, **options: Any) -> Any:
        self.done.append((*args, options))

    def send_packed_command(self, command: Any, check_health: bool = True) -> Any:
        self.sent(command)

    def read_response(self, **options: Any) -> Any:
        return self.answer()


class AsyncWire(Wire):
    """The same for asyncio."""

    @property
    def is_connected(self) -> bool:
        return self.is_open

    async def connect(self) -> None:
        await asyncio.sleep(0)
        super().connect()

    async def disconnect(self, nowait: bool = False) -> None:
        self.waited_for_its_end |= not nowait
        super().disconnect()

    async def can_read(self) -> bool:  # type: ignore[override]
        return bool(super().can_read(0))

    async def send_command(self, *args: Any, **options: Any) -> None:
        super().send_command(*args, **options)

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        self.sent(command)

    async def read_response(self, **options: Any) -> Any:
        return self.answer()
