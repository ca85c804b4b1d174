"""The Python processes that tests start: which functions they run is recorded, or a mutant planted.

An environment variable says which. A new Python reads it through `site/sitecustomize.py`, which
``PYTHONPATH`` names in a run; a process of `tests.forked` reads it when it begins.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import tempfile
import textwrap
import threading
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

from .places import ROOT, function_places

#: "record" or "plant", a colon, and a file.
VARIABLE = "ACKQ_MUTATION_CHILD"
_OWN = f"{ROOT / 'ackq'}{os.sep}"


def record(into: Path) -> None:
    """Let processes that start from now on append the functions that they run to a file."""
    os.environ[VARIABLE] = f"record:{into}"


def recorded(path: Path) -> set[str]:
    """Return the places of the functions that were recorded: all statements of each."""
    lines = set(path.read_text().splitlines()) if path.exists() else set()
    pairs = (line.rpartition(":") for line in lines)
    return {place for file, _, line in pairs for place in function_places(Path(file), int(line))}


def plant_in_children(code: dict[str, str]) -> None:
    """Let processes that start from now on plant a mutant: the code of its functions."""
    file, path = tempfile.mkstemp()
    with open(file, "w") as into:
        json.dump(code, into)
    os.environ[VARIABLE] = f"plant:{path}"


def begin() -> None:
    """Do what the environment says, in a process that has just started."""
    what, _, path = os.environ.get(VARIABLE, "").partition(":")
    if what == "plant":
        for function, code in json.loads(Path(path).read_text()).items():
            plant(function, code)
    elif what == "record":
        _record(path)


def _record(path: str) -> None:
    # A process that is killed has written all of it.
    into = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seen: set[Any] = set()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in seen:
            seen.add(code)
            if code.co_filename.startswith(_OWN):
                os.write(into, f"{code.co_filename}:{code.co_firstlineno}\n".encode())

    threading.settrace(called)
    sys.settrace(called)


def plant(function: str, code: str) -> None:
    """Give a function the code of a mutant, wherever a reference to the function is kept."""
    path, _, name = function.partition(": ")
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = importlib.import_module(dotted)
    owner, _, name = name.rpartition(".")
    place = vars(vars(module)[owner]) if owner else vars(module)
    if isinstance(place[name], int | float):
        _plant_constant(name, place[name], code)
        return
    original, mutant = _inner(place[name]), _inner(_compiled(owner, name, code, vars(module)))
    original.__code__ = mutant.__code__.replace(co_name=original.__code__.co_name)
    original.__defaults__ = mutant.__defaults__
    original.__kwdefaults__ = mutant.__kwdefaults__


def _plant_constant(name: str, value: float, code: str) -> None:
    """Give a constant another value in each module that has imported it."""
    made: dict[str, Any] = {}
    exec(code, made)
    for module in list(sys.modules.values()):
        if module.__name__.startswith(("ackq", "tests")) and vars(module).get(name) == value:
            setattr(module, name, made[name])


def _compiled(owner: str, name: str, code: str, namespace: dict[str, Any]) -> Any:
    text = textwrap.dedent(code)
    if owner:  # for super() and private names
        text = f"class {owner}:\n{textwrap.indent(text, ' ')}"
    made: dict[str, Any] = {}
    exec(
        compile(f"from __future__ import annotations\n{text}", "<mutant>", "exec"), namespace, made
    )
    return vars(made[owner])[name] if owner else made[name]


def _inner(found: Any) -> FunctionType:
    for name in ("__func__", "fget", "callback"):  # a class method, a property, a command
        found = getattr(found, name, found)
    function = inspect.unwrap(found)
    assert isinstance(function, FunctionType)
    return function
