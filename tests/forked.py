"""Python processes that have the command line imported when they start.

``forked.Popen`` and ``forked.run`` take a command ``[sys.executable, "-c", CODE, …]`` like their
namesakes in `subprocess`. A server process imports the command line once and forks for each
command, which takes a tenth of the processor time of a new Python. The forked process is a child of
the test, which may signal, freeze and kill it. Use `subprocess` in tests of how Python starts.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Sequence
from typing import Any, AnyStr

#: What each of the processes has imported.
IMPORTED = ("push", "pop", "peek", "stats", "top", "work", "recover", "purge", "serve", "bench")
#: Variables that Python reads before it runs any code, unless they change nothing here.
READ_AT_START = "PYTHON"
EXCEPT = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
LARGEST_ORDER = 1 << 20
SET_CHILD_SUBREAPER = 36


class Popen(subprocess.Popen[AnyStr]):
    """A process forked from one that has the command line imported; without Linux, a new one."""

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        code = _code(args)
        preexec, _, pass_fds, cwd, env, *_ = rest
        environment = os.environ if env is None else env
        if (
            sys.platform != "linux"
            or code is None
            or executable is not None
            or preexec is not None
            or pass_fds
            or _seen_at_start(environment) != _seen_at_start(os.environ)
        ):
            super()._execute_child(args, executable, *rest)  # type: ignore[misc]
            return
        pipes = rest[8:14]
        stdin, _, _, stdout, _, stderr = pipes
        streams = [own if new == -1 else new for own, new in enumerate((stdin, stdout, stderr))]
        order = {
            "code": code,
            "args": args[args.index(code) + 1 :],
            "safe": "-P" in args[:2],
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(environment),
        }
        try:
            self.pid = _server(_seen_at_start(os.environ)).fork(order, streams)
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True


def run(
    command: Sequence[str],
    *,
    input: Any = None,
    timeout: float = 60,
    check: bool = False,
    capture_output: bool = False,
    **settings: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end, as `subprocess.run` does, and kill it after ``timeout`` seconds."""
    if capture_output:
        settings |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        settings["stdin"] = subprocess.PIPE
    with Popen(command, **settings) as process:
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def _code(args: Any) -> str | None:
    """Return what follows "-c" in a command that is a Python program, otherwise None."""
    words = list(args) if isinstance(args, list | tuple) else []
    if words[:1] != [sys.executable]:
        return None
    options = words[1:3] if words[1:2] == ["-P"] else words[1:2]
    return words[1 + len(options)] if options[-1:] == ["-c"] else None


def _seen_at_start(environment: Any) -> tuple[tuple[str, str], ...]:
    seen = {name for name in environment if name.startswith(READ_AT_START)}.difference(EXCEPT)
    return tuple(sorted((name, environment[name]) for name in seen))


class _Server:
    """The process that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        atexit.register(self.close)

    def fork(self, order: dict[str, Any], streams: Sequence[int]) -> int:
        """Return the id of a new process with these streams; it is a child of this process."""
        prctl = ctypes.CDLL(None).prctl
        with self._lock:
            # Its parent has ended when the id arrives, so the child is this process's meanwhile.
            prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [json.dumps(order).encode()], streams)
                return int(self._socket.recv(100))
            finally:
                prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait()


@functools.cache
def _server(_seen: tuple[tuple[str, str], ...]) -> _Server:
    return _Server()


def _serve(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each order; return it in the new process, and None at the end of all."""
    while True:
        order, streams, *_ = socket.recv_fds(orders, LARGEST_ORDER, 3)
        if not order:
            return None
        reading, writing = os.pipe()
        if (between := os.fork()) == 0:
            if (pid := os.fork()) == 0:
                for each in (reading, writing):
                    os.close(each)
                orders.close()
                return json.loads(order), streams
            os.write(writing, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)  # from here on the new process is a child of the test
        orders.send(os.read(reading, 100))
        for stream in (reading, writing, *streams):
            os.close(stream)


def _become(order: dict[str, Any], streams: list[int]) -> dict[str, Any]:
    """Make this process what a new Python would be; return the namespace of its program."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.chdir(order["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = map(_stream, (sys.stdin, sys.stdout, sys.stderr))
    sys.argv = ["-c", *order["args"]]
    if not order["safe"]:
        sys.path.insert(0, "")
    program = types.ModuleType("__main__")
    sys.modules["__main__"] = program
    return vars(program)


def _stream(old: Any) -> Any:
    """Return a text stream as Python makes it at its start, of what is behind it now."""
    number = old.fileno()
    settings = {"encoding": old.encoding, "errors": old.errors, "closefd": False}
    made = open(number, "w" if number else "r", **settings)  # noqa: SIM115
    assert isinstance(made, io.TextIOWrapper)
    if number:
        at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
        made.reconfigure(line_buffering=number == 2 or made.isatty(), write_through=at_once)
    return made


def main() -> None:
    """Serve, and end as the program of an order."""
    for name in IMPORTED:
        importlib.import_module(f"ackq.cli.{name}")
    gc.collect()
    gc.freeze()  # the memory stays shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = socket.socket(fileno=int(sys.argv[1]))
    with contextlib.closing(orders):
        found = _serve(orders)
    if found:
        order, streams = found
        namespace = _become(order, streams)
        if customize := sys.modules.get("sitecustomize"):  # it did its work before it had the order
            importlib.reload(customize)
        exec(compile(order["code"], "<string>", "exec"), namespace)


if __name__ == "__main__":
    main()
