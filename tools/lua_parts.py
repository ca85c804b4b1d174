"""Write the functions of ``lua/parts`` into the scripts that use them.

A script names its parts in a block, in the order in which they are defined::

    -- Parts: outside, holds
    -- End of parts (edit them in lua/parts)

``make parts`` fills the block, and rewrites it when a part changes. ``make lint`` runs this file
with ``--check``, which changes nothing and fails if a block is stale. If a part uses locals of the
script, it names them in a first comment, ``-- Needs …``, which is not copied.
"""

import re
import sys
from pathlib import Path

LUA = Path(__file__).parent.parent / "lua"
MARK, END = "-- Parts: ", "-- End of parts (edit them in lua/parts)\n"
BLOCK = re.compile(rf"^{MARK}(.+)\n(?:(?!{MARK}).*\n)*?{re.escape(END)}", re.MULTILINE)


class BadBlock(Exception):
    """A block that names no part, or has no end."""


def part(root: Path, name: str) -> str:
    """Return the text of a part as it stands in the scripts."""
    path = root / "parts" / f"{name}.lua"
    if not path.is_file():
        raise BadBlock(f"there is no part lua/parts/{name}.lua")
    text = path.read_text()
    return text.partition("\n\n")[2] if text.startswith("-- Needs ") else text


def filled(root: Path, text: str) -> str:
    """Return the text of a script with the current text of its parts."""

    def block(match: re.Match[str]) -> str:
        texts = (part(root, name) for name in match[1].split(", "))
        return f"{MARK}{match[1]}\n" + "\n".join(texts) + END

    if not text.count("-- Parts") == text.count("-- End of parts") == len(BLOCK.findall(text)):
        raise BadBlock(f"a block begins with '{MARK}name, name' and ends with '{END.strip()}'")
    return BLOCK.sub(block, text)


def by_hand(text: str) -> str:
    """Return the text of a script without its parts."""
    return BLOCK.sub("", text)


def scripts(root: Path) -> list[Path]:
    """Return the scripts, without the parts."""
    return sorted(set(root.rglob("*.lua")) - set((root / "parts").rglob("*.lua")))


def stale(root: Path) -> dict[Path, str]:
    """Return the text that each script should have, for those that have another."""
    found = {}
    for path in scripts(root):
        text = path.read_text()
        try:
            current = filled(root, text)
        except BadBlock as error:
            raise BadBlock(f"{path.relative_to(root.parent)}: {error}") from None
        if current != text:
            found[path] = current
    return found


def main(check: bool) -> int:
    """Write the scripts, or with ``check`` only compare them. Return the exit code."""
    found = stale(LUA)
    for path, text in found.items():
        if not check:
            path.write_text(text)
    if found:
        names = (str(path.relative_to(LUA.parent)) for path in found)
        print(*names, "are stale: run make parts" if check else "written")
    return int(check and bool(found))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
