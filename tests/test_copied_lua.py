"""The functions and constants that several scripts repeat are equal in all of them.

A script cannot include another, so each repeats the few lines that it shares. Two functions of one
name must be equal, and so must the comments above them, unless `VARIANTS` says that they differ on
purpose. Two constants of one name must have one value, unless `LOCAL` lists them.
"""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from ackq import scripts

#: Functions that differ on purpose: for each, the groups of scripts in which it is equal. A script
#: in no group has a function of its own.
VARIANTS: dict[str, list[set[str]]] = {
    # The delay queue keeps its keys by partition, and the ready time must equal the lease.
    "holds": [
        {"ack", "extend", "nack", "pop", "reject"},
        {"delay/delete", "delay/extend", "delay/nack", "delay/reject"},
    ],
    # Its ready times are in seconds.
    "behind": [{"schedule", "push_once", "held/give_back"}, {"delay/push", "staging/delay"}],
    "is_receipt": [],
    # pop looks only when there is something to count.
    "count_up": [
        {
            "ack_id",
            "audit_scan",
            "cancel",
            "claims/ack",
            "claims/claim",
            "drain",
            "drop",
            "held/drop",
            "held/give_back",
            "nack",
            "pipeline/reject",
            "purge",
            "redrive",
            "reject",
        },
        # Each partition of a delay queue has counters of its own.
        {
            "delay/cancel",
            "delay/claim",
            "delay/claim_ack",
            "delay/claim_return",
            "delay/delete",
            "delay/drop",
            "delay/nack",
            "delay/purge",
            "delay/push",
            "delay/redrive",
            "delay/reject",
            "delay/take",
            "staging/delay",
        },
    ],
    # Each partition of a delay queue has notes of its own.
    "failures_of": [
        {"cancel", "nack", "pop", "reject"},
        {"delay/nack", "delay/reject", "delay/take"},
    ],
    # Steps of taking messages: each works on the keys and the reply of its own script.
    "dead_letter": [],
    "deliver": [],
    "forget": [],
    "full": [],
    "read": [],
    "spend": [{"delay/take", "pop"}],
    "take_back": [],
    "take_ready": [],
    # Steps of a redrive and of an audit, likewise.
    "redrive": [],
    "report": [],
}
#: Constants that each script chooses for itself.
LOCAL = {"CHUNK", "HEAD", "MOST", "RECOVERED", "SWEPT"}

FUNCTION = re.compile(r"^(?:--.*\n)*local function (\w+)(\((?:.*\n)*?end)$", re.MULTILINE)
CONSTANT = re.compile(r"^local ([A-Z][A-Z_]+) = (.+?)(?: *--.*)?$", re.MULTILINE)

TEXTS = {script: scripts.load(script).text.decode() for script in scripts.names()}
#: The folders of lua/; "" has the scripts of the list queue.
FOLDERS = sorted({script.rpartition("/")[0] for script in TEXTS})


def definitions(pattern: re.Pattern[str], texts: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return what several scripts define: by name, the definition of each script."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for script, text in texts.items():
        for match in pattern.finditer(text):
            whole = match[0] if pattern is FUNCTION else match[2]
            found[match[1]][script] = whole
    return {name: copies for name, copies in found.items() if len(copies) > 1}


def groups(copies: dict[str, str]) -> list[set[str]]:
    """Return the groups of scripts that have the same definition."""
    found: dict[str, set[str]] = defaultdict(set)
    for script, definition in copies.items():
        found[definition].add(script)
    return list(found.values())


def differing_functions(texts: dict[str, str]) -> set[str]:
    """Return the names of functions whose copies are not equal where they should be."""
    differing = set()
    for name, copies in definitions(FUNCTION, texts).items():
        expected = VARIANTS.get(name, [set(copies)])
        expected = [*expected, *({each} for each in copies if each not in set().union(*expected))]
        if sorted(map(sorted, groups(copies))) != sorted(map(sorted, expected)):
            differing.add(name)
    return differing


def differing_constants(texts: dict[str, str]) -> set[str]:
    """Return the names of constants that have several values."""
    shared = definitions(CONSTANT, texts)
    return {name for name, copies in shared.items() if len(groups(copies)) > 1} - LOCAL


def test_the_copies_of_a_function_are_equal() -> None:
    assert differing_functions(TEXTS) == set()


def test_the_copies_of_a_constant_are_equal() -> None:
    assert differing_constants(TEXTS) == set()


def test_every_exception_is_still_one() -> None:
    assert definitions(FUNCTION, TEXTS).keys() >= VARIANTS.keys()
    assert definitions(CONSTANT, TEXTS).keys() >= LOCAL
    assert len(definitions(FUNCTION, TEXTS)["outside"]) >= 36


def plant(text: str, pattern: re.Pattern[str], name: str) -> str:
    """Return a script with one of its definitions changed."""
    match = next(each for each in pattern.finditer(text) if each[1] == name)
    start, end = match.span(2)
    old = match[2]
    new = f"{old.removesuffix('end')}  return\nend" if pattern is FUNCTION else f"{old} + 1"
    return text[:start] + new + text[end:]


def copies_in(folder: str, pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return the name and the script of each definition that another script has too."""
    return [
        (name, script)
        for name, copies in definitions(pattern, TEXTS).items()
        for group in groups(copies)
        for script in group
        if len(group) > 1 and name not in LOCAL and script.rpartition("/")[0] == folder
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_copy_that_differs_is_noticed_in_every_folder(folder: str) -> None:
    checks = ((FUNCTION, differing_functions), (CONSTANT, differing_constants))
    planted = 0
    for pattern, differing in checks:
        for name, script in copies_in(folder, pattern):
            texts = {**TEXTS, script: plant(TEXTS[script], pattern, name)}
            assert differing(texts) == {name}, f"{name} in {script}"
            planted += 1
    assert planted, "no script of this folder repeats anything"
