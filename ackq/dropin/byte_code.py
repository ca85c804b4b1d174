"""What a program does between two pops, as far as the byte code of its functions shows.

A loop that collects messages, or hands them to another thread, task or process, asks for the next
message before the work on the last one is done. Some of these loops can be recognised by a call
between the pop and the next one: they append to a list that is older than the message, or they
call something like ``submit``. It is a sign, no proof: see `MAY_COLLECT` in `ackq.dropin.loops`.

Only functions that ran between two pops count, if the second is the same call as the first, and in
them only what can be reached from the one and leads to the other, without exceptions.
"""

from __future__ import annotations

import bisect
import dis
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Set
from dis import Instruction
from types import CodeType, FrameType
from typing import NamedTuple

#: Methods that keep an object for later. They count if the container is older than the message.
KEEPS = frozenset({"append", "appendleft", "extend", "extendleft"})
#: Functions, methods and classes that hand work to others, to be done later.
HANDS_ON = frozenset(
    {
        *("put", "put_nowait", "send_nowait", "submit", "add_done_callback", "add_task"),
        *("apply_async", "map_async", "starmap_async", "imap", "imap_unordered"),
        *("create_task", "ensure_future", "start_soon", "call_soon", "call_soon_threadsafe"),
        *("run_coroutine_threadsafe", "call_later", "spawn", "spawn_later", "spawn_n"),
        *("addCallback", "addCallbacks", "addBoth", "callInThread", "deferToThread"),
        *("Thread", "Timer", "Process", "Popen", "start_new_thread", "fork", "posix_spawn"),
    }
)
#: What waits for that work, if it stands beside it.
WAITS = frozenset(
    {
        *("result", "join", "wait", "waitpid", "wait4", "communicate", "gather", "as_completed"),
        *("ThreadPoolExecutor", "ProcessPoolExecutor", "TaskGroup", "create_task_group", "joinall"),
    }
)
#: Most functions to look at, from the one that popped outwards.
MAX_FUNCTIONS = 8

_COMPREHENSIONS = frozenset({"LIST_APPEND", "SET_ADD", "MAP_ADD"})
_NEW_CONTAINERS = frozenset({"BUILD_LIST", "BUILD_SET", "BUILD_MAP"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_VARIABLES = ("LOAD_FAST", "STORE_FAST_LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF")
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class Call(NamedTuple):
    """A function and the instruction at which it was during a pop."""

    frame: FrameType
    instruction: int


def calls_in(frames: Iterable[FrameType]) -> list[Call]:
    """Return where the innermost of the user's functions are now, innermost first."""
    users = (frame for frame in frames if not _is_of_python(frame))
    return [Call(frame, frame.f_lasti) for frame in itertools.islice(users, MAX_FUNCTIONS)]


def between_pops(earlier: Iterable[Call], now: Iterable[FrameType]) -> str | None:
    """Return what keeps a message or hands it on between two pops, or None.

    Args:
        earlier: the functions that were running during the first pop, innermost first.
        now: the functions that are running during the second.
    """
    running = {id(frame): frame for frame in now}
    for frame, instruction in earlier:
        goes_on = id(frame) in running
        # Only loops: two pops that follow each other are no pattern.
        if goes_on and frame.f_lasti != instruction:
            break
        if sign := _found(frame.f_code, instruction, goes_on):
            return sign
        # Between two steps of a generator, the function that it is for goes on too.
        if goes_on and not frame.f_code.co_flags & _GENERATOR:
            break
    return None


def _is_of_python(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return package in sys.stdlib_module_names


@functools.lru_cache(maxsize=256)
def _found(code: CodeType, offset: int, loops: bool) -> str | None:
    """Return what keeps a message or hands it on, after the call at ``offset`` of a function.

    Args:
        code: the function.
        offset: of the call that popped the message.
        loops: whether the function came back to that call. If not, it has returned.
    """
    instructions = list(dis.get_instructions(code))
    offsets = [instruction.offset for instruction in instructions]
    index = {offset: number for number, offset in enumerate(offsets)}
    following = [_following(instructions, number, index) for number in range(len(instructions))]
    # In a call, it may be the offset of one of the caches behind the instruction.
    start = bisect.bisect_right(offsets, offset) - 1
    after = _reached(start, following)
    if loops:
        leading: list[list[int]] = [[] for _ in following]
        for number, others in enumerate(following):
            for other in others:
                leading[other].append(number)
        after &= _reached(start, leading)
    names = {
        instruction.argval
        for number in after
        if (instruction := instructions[number]).opname.startswith("LOAD_")
        and isinstance(instruction.argval, str)
    }
    if (handed := HANDS_ON & names) and not WAITS & names:
        return min(handed)
    for number in sorted(after):
        if instructions[number].opname in _COMPREHENSIONS:
            renews: Callable[[Instruction], bool] = _makes_one
            kept = "a comprehension"
        elif instructions[number].opname in _ATTRIBUTES and instructions[number].argval in KEEPS:
            path = _path(instructions, number - 1)
            if not path or (not loops and len(path) == 1):
                continue
            kept = ".".join([*path, instructions[number].argval])
            renews = functools.partial(_stores, path)
        else:
            continue
        new = {at for at, instruction in enumerate(instructions) if renews(instruction)}
        if number in _reached(start, following, new):
            return kept
    return None


def _following(instructions: list[Instruction], number: int, index: dict[int, int]) -> list[int]:
    """Return what may run after an instruction, if it raises nothing."""
    this = instructions[number]
    following = []
    if this.opcode in dis.hasjrel or this.opcode in dis.hasjabs:
        following.append(index[this.argval])
    jumps_always = this.opname.startswith("JUMP_") and "_IF_" not in this.opname
    if this.opname not in _ENDS and not jumps_always and number + 1 < len(instructions):
        following.append(number + 1)
    return following


def _reached(start: int, following: list[list[int]], stops: Set[int] = frozenset()) -> set[int]:
    """Return what can be reached from ``start``, by paths that end at each of ``stops``."""
    reached: set[int] = set()
    ahead = list(following[start])
    while ahead:
        number = ahead.pop()
        if number not in reached:
            reached.add(number)
            if number not in stops:
                ahead += following[number]
    return reached


def _path(instructions: list[Instruction], number: int) -> list[str]:
    """Return the names of an expression like ``self.rows`` that ends here, or none."""
    attributes: list[str] = []
    while number >= 0 and instructions[number].opname in _ATTRIBUTES:
        attributes.insert(0, instructions[number].argval)
        number -= 1
    base = instructions[number]
    if number < 0 or not base.opname.startswith(_VARIABLES):
        return []
    name = base.argval[-1] if isinstance(base.argval, tuple) else base.argval
    return [name, *attributes]


def _makes_one(instruction: Instruction) -> bool:
    return instruction.opname in _NEW_CONTAINERS


def _stores(path: list[str], instruction: Instruction) -> bool:
    """Return whether the variable or the last attribute of ``path`` is assigned to."""
    if not instruction.opname.startswith("STORE_"):
        return False
    stored = instruction.argval
    if instruction.opname == "STORE_ATTR":
        return len(path) > 1 and stored == path[-1]
    if instruction.opname == "STORE_FAST_LOAD_FAST":
        stored = stored[:1]
    return path[0] in stored if isinstance(stored, tuple) else stored == path[0]
