"""The headers are true, and the scripts keep to their keys."""

import re
from collections.abc import Generator, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from ackq import scripts
from ackq.core.effects import Arg, Clock, Request
from tests import facts
from tests.queue.scripts.headers import Header, is_of_the_list_queue, parse, read

SCRIPTS = [*filter(is_of_the_list_queue, scripts.names())]
every_script = pytest.mark.parametrize("script", SCRIPTS)

#: What a key may be called where it is passed to a function or walked over.
PASSED_KEYS = {"zset", "list", "stream", "key"}
#: What keys are called whose names have parts of their own.
LOCALS = {
    "": "ready",
    "DEDUP:<marker>": "marker",
    "CLAIMS:<group>": "group",
    "HELD:LEFT": "held",
    "WAITERS:LOOKS": "looks",
    **{
        f"GROUPS:{name.upper()}": name
        for name in (
            *("busy", "parked", "turns", "flight", "runs", "woken", "rates"),
            *("room", "stopped", "letters"),
        )
    },
}


#: What holds the place of the next group of keys among the arguments.
GROUPS = {"at", "settled", "claims"}


def header(directory: Path, script: str) -> Header:
    return parse(read(directory, script))


def code(directory: Path, script: str) -> str:
    """Return a script without its comments."""
    return re.sub(r"--.*", "", read(directory, script))


def bindings(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the name, KEYS or ARGV, and the number of every slot that a local is bound to."""
    for names, values in re.findall(r"^local ([\w, ]+) = (.*)$", text, re.MULTILINE):
        if not re.search(r"\b(KEYS|ARGV)\[", values) and names not in GROUPS:
            continue
        for name, value in zip(names.split(", "), values.split(", "), strict=True):
            if slot := re.search(r"\b(KEYS|ARGV)\[(\d+)\]", value):
                yield name, slot[1], int(slot[2])
            else:
                assert name in GROUPS
                yield name, "ARGV", int(value)


@every_script
def test_a_header_names_the_keys_of_the_queue_with_their_types(
    scripts_directory: Path, script: str
) -> None:
    types = {
        "": "list",
        "BACKUP": "zset",
        "CONTEXT": "hash",
        "HANDOFF": "list",
        "RECEIVES": "hash",
        "EXTENDED": "hash",
        "DELAYED": "zset",
        "DEAD": "stream",
        "PAUSED": "string",
        "DEDUP:<marker>": "string",
        "HELD": "zset",
        "COUNTERS": "hash",
        "HELDROWS": "hash",
        "CLAIMS:<group>": "hash",
        "ERRORS": "hash",
        "WAITERS:LOOKS": "string",
        "CLAIM:<group>:<batch>": "list",
        "GROUPS:BUSY": "hash",
        "GROUPS:PARKED": "zset",
        "GROUPS:TURNS": "zset",
        "GROUPS:FLIGHT": "hash",
        "GROUPS:RUNS": "zset",
        "GROUPS:WOKEN": "string",
        "GROUPS:RATES": "zset",
        "GROUPS:ROOM": "list",
        "GROUPS:STOPPED": "hash",
        "GROUPS:LETTERS": "hash",
    }
    if script == "pop_from":
        types |= {"HELD": "string", "HELD:LEFT": "zset"}
    if script.startswith("groups/"):
        types["HELD"] = "string"
    found = header(scripts_directory, script)
    for slot in (*found.keys, *(slot for slot in found.grouped if slot.suffix != "HELD")):
        assert slot.name.startswith("{name}")
        assert types[slot.suffix] == slot.type


@every_script
def test_every_key_is_bound_to_the_name_that_the_header_gives_it(
    scripts_directory: Path, script: str
) -> None:
    slots = header(scripts_directory, script)
    text = code(scripts_directory, script)
    keys = {number: name for name, kind, number in bindings(text) if kind == "KEYS"}
    # Of any held list it is a list; of a group's own it is its claim.
    claim = "list" if script.startswith("held/") else "claim"
    names = {**LOCALS, "CLAIM:<group>:<batch>": claim}
    if script == "pop_from" or script.startswith("groups/"):
        names["HELD"] = "record"
    declared = {slot.number: names.get(slot.suffix, slot.suffix.lower()) for slot in slots.keys}
    if slots.record is not None:
        assert slots.record.number == len(slots.keys) + 1
        declared[slots.record.number] = "record"
    names["HELD"] = "record"
    declared |= {slot.number: names.get(slot.suffix, slot.suffix.lower()) for slot in slots.grouped}
    if "in ipairs(KEYS)" in text:  # audit and peek look at each of their keys alike
        assert keys.items() <= declared.items()
    else:
        assert keys == declared
    for name in keys.values():
        assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is declared and never used"


@every_script
def test_every_argument_is_bound_to_the_name_that_the_header_gives_it(
    scripts_directory: Path, script: str
) -> None:
    declared = {slot.number: slot.name for slot in header(scripts_directory, script).arguments}
    text = code(scripts_directory, script)
    bound = {number: name for name, kind, number in bindings(text) if kind == "ARGV"}
    if facts.of(script).named_arguments == "none":
        return
    for number, name in bound.items():
        assert name in {declared[number], "base", *GROUPS}
    if facts.of(script).named_arguments == "all":
        assert bound.keys() == declared.keys()


@every_script
def test_a_script_builds_no_name_of_a_key(scripts_directory: Path, script: str) -> None:
    text = code(scripts_directory, script)
    keys = [name for name, kind, _ in bindings(text) if kind == "KEYS"]
    rest = "\n".join(line for line in text.splitlines() if "KEYS[" not in line)
    assert len(re.findall(r"\bKEYS\b", rest)) == rest.count("in ipairs(KEYS)")
    for name in (*keys, *PASSED_KEYS - {"key"}):
        assert not re.search(rf"\b{name} *\.\.|\.\. *{name}\b", text)


@every_script
def test_a_script_touches_only_keys_that_it_was_passed(
    scripts_directory: Path, script: str
) -> None:
    text = code(scripts_directory, script)
    keys = {name for name, kind, _ in bindings(text) if kind == "KEYS"}
    for command, first in re.findall(r"redis\.call\('(\w+)'(?:, *([^,)]+))?", text):
        if command == "TIME":
            continue
        allowed = keys | PASSED_KEYS - ({"key"} if "in ipairs(KEYS)" not in text else set())
        assert first in allowed, f"{command} {first}"
    functions = r"\b(?:take_back|take_ready|look_in_set|write_letter)"
    for name in re.findall(rf"{functions}\((\w+)", text):
        assert name in keys | PASSED_KEYS


@every_script
def test_the_time_is_the_servers_and_is_read_once(scripts_directory: Path, script: str) -> None:
    text = code(scripts_directory, script)
    assert text.count("redis.call('TIME')") == ("clock" in re.findall(r"local (\w+)", text))
    assert "os." not in text
    # An error must end the script, unless it only counts.
    assert "redis.pcall" not in re.sub(r"redis\.pcall\('\w+', (?:counters|looks)\b", "", text)


@every_script
def test_a_script_needs_no_other_file(scripts_directory: Path, script: str) -> None:
    # Any language can load it with SCRIPT LOAD, and 6.2 knows no #! line.
    text = read(scripts_directory, script)
    assert "require" not in text
    assert not text.startswith("#!")


def blocks(directory: Path, pattern: str) -> dict[str, str]:
    found = {}
    for script in SCRIPTS:
        if block := re.search(pattern, read(directory, script), re.DOTALL):
            found[script] = block[0]
    return found


def test_the_budgets_of_different_scripts_are_equal(scripts_directory: Path) -> None:
    budgets = blocks(scripts_directory, r"BODY_BUDGET = \d+")
    assert budgets.keys() >= {"pop", "nack", "peek", "drain", "redrive"}
    assert set(budgets.values()) == {"BODY_BUDGET = 1048576"}


# What Python passes.


def run(steps: Generator[Any, Any, Any]) -> dict[str, Request]:
    """Drive an operation with replies of a queue that has little, and return its script calls."""
    replies = {each.script: deepcopy(list(each.replies)) for each in facts.every()}
    calls: dict[str, Request] = {}
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            if isinstance(step, Clock):
                answer = 0.0
            elif isinstance(step, Request) and step.script is None:
                assert step.args[0] in (b"HMGET", b"TYPE")
                found = [b"1", b"0", b"0"][: len(step.args) - 2]
                answer = found if step.args[0] == b"HMGET" else b"none"
            else:
                assert isinstance(step, Request)
                assert step.script is not None
                # Of several calls, the one that passes the most.
                former = calls.setdefault(step.script.name, step)
                calls[step.script.name] = max(former, step, key=lambda each: len(each.args))
                answer = replies[step.script.name].pop(0)
    except StopIteration:
        return calls


def called(script: str) -> tuple[Arg, ...]:
    """Return the arguments that Python passes to a script."""
    operation = facts.of(script).operation
    assert operation is not None, f"tests/facts/{script}.py names no operation that calls it"
    return run(operation())[script].args


every_example = pytest.mark.parametrize(
    "script", [each.script for each in facts.every() if each.operation]
)


@every_example
def test_python_passes_the_keys_in_the_order_of_the_header(
    scripts_directory: Path, script: str
) -> None:
    args = called(script)
    slots = header(scripts_directory, script).keys
    expected = [f"jobs{slot.suffix}".replace("<batch>", "1").encode() for slot in slots]
    assert list(args[: len(expected) + 1]) == [len(expected), *expected]


@every_example
def test_python_passes_the_arguments_in_the_order_of_the_header(
    scripts_directory: Path, script: str
) -> None:
    slots = header(scripts_directory, script)
    passed = called(script)[1 + len(slots.keys) :]
    known = facts.of(script).passes
    at = 0
    for slot in slots.arguments:
        if slot.name == "jitter":
            assert passed[at] in range(65536)
            at += 1
        elif slot.name in known:
            expected = known[slot.name]
            assert list(passed[at : at + len(expected)]) == expected, slot.name
            at += len(expected)
    assert at == len(passed)


def traced() -> Iterator[tuple[str, list[str]]]:
    """Yield the scripts, and the keys of each call, that stand in the traces of operations."""
    for path in Path("tests").glob("*/requests.txt"):
        for line in path.read_text().splitlines():
            if found := re.match(r"> (\S+)\.lua (\d+) ?(.*)", line):
                yield found[1], found[3].split(" ")[: int(found[2])]


def test_python_passes_the_keys_of_every_trace_in_the_order_of_the_header(
    scripts_directory: Path,
) -> None:
    for script, keys in traced():
        if script.startswith("claims/") and keys[0].startswith("d:"):
            continue  # of a delay queue, whose claims have keys of other names
        for slot, key in zip(header(scripts_directory, script).keys, keys, strict=False):
            fixed = slot.name.partition("<")[0].rpartition("}")[2]
            assert fixed in key or "STAGED:" in key, f"{script}: {key}"


def test_what_python_passes_to_each_script_stands_in_its_facts_or_in_a_trace() -> None:
    shown = {script for script, _ in traced()} | {e.script for e in facts.every() if e.operation}
    assert set(scripts.names()) - shown == set()
