"""What several scripts share stands once, in lua/parts, and the scripts have its current text."""

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from ackq import scripts
from tools.lua_parts import BLOCK, LUA, BadBlock, by_hand, filled, stale
from tools.lua_parts import scripts as paths

PARTS = LUA / "parts"
#: Functions that only share a name: each works on the keys and the reply of its own script.
OWN = {
    "dead_letter",
    "deliver",
    "forget",
    "full",
    "is_receipt",
    "read",
    "redrive",
    "report",
    "take_back",
    "take_ready",
}
#: Constants that each script chooses for itself.
LOCAL = {"CHUNK", "HEAD", "MAX_IN_CALL", "RECOVERED", "SCRIPT", "SWEPT"}
FUNCTION = re.compile(r"^local function (\w+)\(", re.MULTILINE)
CONSTANT = re.compile(r"^local ([A-Z][A-Z_]+) = (.+?)(?: *--.*)?$", re.MULTILINE)


def written(pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return by name what stands in the parts, and in the scripts beside them."""
    texts = [by_hand(path.read_text()) for path in paths(LUA)]
    texts += [path.read_text() for path in PARTS.rglob("*.lua")]
    found = defaultdict(list)
    for text in texts:
        for match in pattern.finditer(text):
            found[match[1]].append(match[match.lastindex or 0])
    return {name: each for name, each in found.items() if len(each) > 1}


def test_the_scripts_have_the_current_text_of_their_parts() -> None:
    assert not stale(LUA), "run make parts"


def test_no_function_is_written_twice() -> None:
    parts = {path.relative_to(PARTS).as_posix() for path in PARTS.rglob("*.lua")}
    variants = {Path(part).stem for part in parts if "/" in part and Path(part).name in parts}
    assert written(FUNCTION).keys() == OWN | variants


def test_constants_of_one_name_have_one_value() -> None:
    several = {name for name, values in written(CONSTANT).items() if len(set(values)) > 1}
    assert several == LOCAL


def test_a_part_serves_several_scripts() -> None:
    users = defaultdict(list)
    for path in paths(LUA):
        for block in BLOCK.finditer(path.read_text()):
            for name in block[1].split(", "):
                users[name].append(path)
    parts = {path.relative_to(PARTS).with_suffix("").as_posix() for path in PARTS.rglob("*.lua")}
    assert {name for name, each in users.items() if len(each) > 1} == parts


def test_a_part_is_no_script() -> None:
    assert not [name for name in scripts.names() if name.startswith("parts")]
    assert len(scripts.names()) == len(paths(LUA))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the folder of scripts."""
    return Path(shutil.copytree(LUA, tmp_path / "lua"))


def test_a_change_of_any_line_of_a_block_is_undone() -> None:
    for path in paths(LUA):
        text = path.read_text()
        for block in BLOCK.finditer(text):
            lines = block[0].splitlines(keepends=True)
            for at in range(1, len(lines) - 1):
                changed = "".join((*lines[:at], "--\n", *lines[at + 1 :]))
                assert filled(LUA, text.replace(block[0], changed)) == text


def test_a_changed_part_reaches_every_script_that_names_it(copy: Path) -> None:
    part = copy / "parts/holds.lua"
    part.write_text(part.read_text() + "-- changed\n")
    found = {path.stem: text for path, text in stale(copy).items()}
    assert found.keys() == {"ack", "extend", "nack", "pop", "reject"}
    assert all(text.count("-- changed\n") == 1 for text in found.values())


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("-- Parts: outside\n", "-- Parts: inside\n", "there is no part lua/parts/inside.lua"),
        ("-- End of parts (edit them in lua/parts)\n", "", "a block begins with"),
        ("-- Parts: outside\n", "", "a block begins with"),
    ],
)
def test_a_bad_block_is_refused(copy: Path, old: str, new: str, error: str) -> None:
    path = copy / "run_now.lua"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BadBlock, match=rf"^lua/run_now.lua: {error}"):
        stale(copy)
