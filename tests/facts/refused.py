"""Arguments that a script refuses, besides numbers out of range and words that are none."""

from collections.abc import Iterable, Iterator, Mapping

from tests.queue.scripts.busy import MINE
from tests.queue.scripts.space import FUTURE, Value

Args = tuple[Value, ...]

NO_NUMBERS: Args = ("", "text", "1.5", "nan", "-nan", "inf", "-inf", "1e400", "1,0")


def bad_groups(head: Args, delay: int | None = None) -> dict[str, Args]:
    """Return calls with a good first group and a bad second one.

    Args:
        head: the arguments before the groups.
        delay: of each group, if they have one.
    """
    return dict(_bad_groups(head, () if delay is None else (delay,)))


def _bad_groups(head: Args, delay: Args) -> Iterator[tuple[str, Args]]:
    many: list[Value] = ["key"] * 4100
    tails: list[Args] = [
        (FUTURE,),
        (FUTURE, 1),
        (FUTURE, 2, "key"),
        (FUTURE, 4001, *many[:4001]),
        (FUTURE, 1, *many),
        *((receipt, 1, "key") for receipt in (*NO_NUMBERS, -1, 2**53)),
        *((FUTURE, size, "key") for size in (*NO_NUMBERS, 0, -1, 4001)),
    ]
    good = (*head, MINE[0], *delay, *MINE[1:])
    for tail in tails:
        yield str(tail)[:60], (*good, *tail[:1], *delay, *tail[1:])
    if delay:
        for wrong in (*NO_NUMBERS, -3, 2**53):
            yield f"delay-{wrong!r}", (*good, FUTURE, wrong, 1, "key")


def bad(good: Args, values: Mapping[int, Iterable[Value]]) -> dict[str, Args]:
    """Return calls in which one argument of a good one is bad; ``values`` are by its place."""
    return {
        f"{place}-{value!r:.30}": (*good[:place], value, *good[place + 1 :])
        for place, wrong in values.items()
        for value in wrong
    }


def cut(good: Args, *lengths: int) -> dict[str, Args]:
    """Return calls with only the first arguments of a good one."""
    return {f"{length} arguments": good[:length] for length in lengths}


def bad_pairs(most: int) -> dict[str, Args]:
    """Return calls with bad pairs of a due time and a key, or more pairs than ``most``."""
    found: dict[str, Args] = {"none": (), "odd": (FUTURE,)}
    found[f"{most + 1}"] = (FUTURE, "later") * (most + 1)
    for due in (*NO_NUMBERS[1:], -1, 2**53):
        found[f"due-{due!r}"] = (FUTURE, "later", due, "due")
    return found
