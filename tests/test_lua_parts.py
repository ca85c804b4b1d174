"""What several scripts share stands once, in lua/parts, and scripts include it."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from ackq import scripts
from ackq.scripts import compose

LUA = scripts.directory()
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
    """Return by name what stands in several files of the scripts and parts."""
    found = defaultdict(list)
    for path in LUA.rglob("*.lua"):
        for match in pattern.finditer(path.read_text()):
            found[match[1]].append(match[match.lastindex or 0])
    return {name: each for name, each in found.items() if len(each) > 1}


def test_no_function_is_written_twice() -> None:
    parts = {path.relative_to(PARTS).as_posix() for path in PARTS.rglob("*.lua")}
    variants = {Path(part).stem for part in parts if "/" in part and Path(part).name in parts}
    assert written(FUNCTION).keys() == OWN | variants


def test_constants_of_one_name_have_one_value() -> None:
    several = {name for name, values in written(CONSTANT).items() if len(set(values)) > 1}
    assert several == LOCAL


def test_a_part_serves_several_files_or_is_a_part_of_one_script() -> None:
    users = defaultdict(list)
    for path in LUA.rglob("*.lua"):
        for names in scripts.INCLUDE.findall(path.read_text()):
            for name in names.split(", "):
                users[name].append(path)
    parts = {path.relative_to(PARTS).with_suffix("").as_posix() for path in PARTS.rglob("*.lua")}
    of_one = {part for part in parts if Path(part).parent.as_posix() in scripts.names()}
    assert {name for name, each in users.items() if len(each) > 1} == parts - of_one
    assert of_one <= users.keys()


def test_a_part_is_no_script() -> None:
    assert not [name for name in scripts.names() if name.startswith("parts")]
    assert len(scripts.names()) == len(set(LUA.rglob("*.lua")) - set(PARTS.rglob("*.lua")))


def test_a_script_is_loaded_with_its_parts() -> None:
    for name in scripts.names():
        text = scripts.load(name).text.decode()
        assert "-- include:" not in text
        assert "-- Needs " not in text
        assert compose(LUA, name) == text


@pytest.fixture
def lua(tmp_path: Path) -> Path:
    """A folder with a script, of which a test writes the parts."""
    (tmp_path / "parts/deep").mkdir(parents=True)
    (tmp_path / "a.lua").write_text("-- a\n-- include: one, deep/two\n\n-- include: one, three\n")
    (tmp_path / "parts/three.lua").write_text("three()\n")
    return tmp_path


def test_each_part_is_put_in_once_behind_those_that_it_includes(lua: Path) -> None:
    (lua / "parts/one.lua").write_text("-- include: deep/two\n-- Needs x; in\n-- s.\n\none()\n")
    (lua / "parts/deep/two.lua").write_text("-- include: zero\n\ntwo()\n")
    (lua / "parts/zero.lua").write_text("-- Zero.\n\nzero()\n")
    assert compose(lua, "a") == "-- a\n-- Zero.\n\nzero()\n\ntwo()\n\none()\n\nthree()\n"


def test_keys_of_a_part_are_behind_those_that_the_script_numbers(lua: Path) -> None:
    (lua / "a.lua").write_text("-- KEYS[1] x\n-- With groups: KEYS[2] y\n-- include: one\n")
    (lua / "parts/one.lua").write_text("-- With groups: KEYS[+1] z\nlocal z = KEYS['+12']\n")
    composed = "-- KEYS[1] x\n-- With groups: KEYS[2] y\n-- With groups: KEYS[3] z\n"
    assert compose(lua, "a") == f"{composed}local z = KEYS[14]\n"


@pytest.mark.parametrize(
    ("one", "two", "error"),
    [
        ("x()\n", "-- include: no\n\n", "lua/parts/deep/two.lua includes no, but there is no"),
        ("-- include: one\n\n", "", "lua/parts/one.lua includes one, which includes it"),
        ("-- include: deep/two\n\n", "-- include: one\n", "lua/parts/deep/two.lua includes one, w"),
    ],
)
def test_a_part_that_is_missing_or_includes_itself_is_an_error(
    lua: Path, one: str, two: str, error: str
) -> None:
    (lua / "parts/one.lua").write_text(one)
    (lua / "parts/deep/two.lua").write_text(two)
    with pytest.raises(ValueError, match=f"^{error}"):
        compose(lua, "a")


def test_a_script_that_includes_no_part_is_an_error(lua: Path) -> None:
    with pytest.raises(ValueError, match=r"^lua/a.lua includes one, but there is no"):
        compose(lua, "a")
