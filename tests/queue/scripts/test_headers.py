"""The headers are true, and the scripts keep to their keys."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackq import scripts
from tests import facts
from tests.queue.scripts.headers import Header, Slot, is_of_the_list_queue, parse, read

SCRIPTS = [*filter(is_of_the_list_queue, scripts.names())]
every_script = pytest.mark.parametrize("script", SCRIPTS)

#: What a key may be called where it is passed to a function or walked over.
PASSED_KEYS = {"zset", "list", "stream", "key"}
#: What keys are called whose names have parts of their own.
LOCALS = {
    "": "ready",
    "DEDUP:<marker>": "marker",
    "CLAIMS:<group>": "group",
    "HELD:LEFT": "left",
    "GROUPS:SINCE": "since",
    "WAITERS:LOOKS": "looks",
    **{
        f"GROUPS:{name.upper()}": name
        for name in (
            *("busy", "parked", "turns", "flight", "runs", "woken", "rates"),
            *("room", "stopped", "letters", "limits", "pauses"),
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
        "RECORD": "hash",
        "HELD:LEFT": "zset",
        "GROUPS:SINCE": "string",
        "COUNTERS": "hash",
        "HELDROWS": "hash",
        "CLAIMS:<group>": "hash",
        "ERRORS": "hash",
        "NOTES": "hash",
        "WAITERS:LOOKS": "string",
        "TAKEN:<taker>": "string",
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
        "GROUPS:LIMITS": "hash",
        "GROUPS:PAUSES": "zset",
    }
    found = header(scripts_directory, script)
    for slot in filter(None, (*found.keys, *found.grouped, found.note)):
        assert slot.name.startswith("{name}")
        assert types[slot.suffix] == slot.type


@every_script
def test_every_key_is_bound_to_the_name_that_the_header_gives_it(
    scripts_directory: Path, script: str
) -> None:
    slots = header(scripts_directory, script)
    text = code(scripts_directory, script)
    keys = {number: name for name, kind, number in bindings(text) if kind == "KEYS"}
    # A held list has one of any list; a group's own has one of its claim.
    claim = "list" if script.startswith("held/") else "claim"
    names = {**LOCALS, "CLAIM:<group>:<batch>": claim}
    declared = {slot.number: names.get(slot.suffix, slot.suffix.lower()) for slot in slots.keys}
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
    if header(scripts_directory, script).note is not None:
        assert "local latest = KEYS[#KEYS]" in text
        keys.add("latest")
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


#: Scripts of which a queue without groups passes no key of what was moved aside.
FEWER = {"peek": 1, "search": 1}


def traced() -> Iterator[tuple[str, list[str]]]:
    """Yield the scripts, and the keys of each call, that stand in the traces of operations."""
    for path in Path("tests").glob("*/requests.txt"):
        for line in path.read_text().splitlines():
            if found := re.match(r"> (?:& )?(\S+)\.lua (\d+) ?(.*)", line):
                yield found[1], found[3].partition(" ...")[0].split(" ")[: int(found[2])]


def end_of(slot: Slot) -> str:
    """Return what a key of this slot ends with, or has before its variable part."""
    return slot.name.partition("<")[0].rpartition("}")[2]


def test_python_passes_the_keys_of_every_trace_in_the_order_of_the_header(
    scripts_directory: Path,
) -> None:
    compared, alone = 0, 0
    for script, keys in traced():
        if script.startswith("claims/") and keys[0].startswith("d:"):
            continue  # of a delay queue, whose claims have keys of other names
        found = header(scripts_directory, script)
        assert len(keys) >= len(found.keys) - FEWER.get(script, 0) or keys == [""], script
        ends = [end_of(slot) for slot in found.keys]
        pairs = [*zip(ends, keys, strict=False)]
        names = {key.partition(end)[0] for end, key in pairs if end}
        for end, key in pairs:
            what = f"{script}: {key}"
            if not end and names and "STAGED:" not in key:
                assert key in names, what  # the list of ready messages has the name of the queue
                alone += 1
            assert end in key or "STAGED:" in key, what
            compared += 1
        more = {*ends, *(end_of(slot) for slot in found.grouped), "WOKEN", ""}
        for key in keys[len(ends) :]:
            assert any(key.endswith(end) for end in more), f"{script}: {key}"
    assert compared > 3_000
    assert alone > 100


def test_what_python_passes_to_each_script_stands_in_a_trace() -> None:
    assert set(scripts.names()) - {script for script, _ in traced()} == set()
