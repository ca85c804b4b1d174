"""What the tests, the benchmarks and the planted mistakes know of a script: all of it in one place.

The facts of ``lua/peek.lua`` are in ``tests/facts/peek.py``, those of ``lua/delay/take.lua`` in
``tests/facts/delay/take.py``, or in ``tests/facts/delay.py`` if the folder has one file for all::

    FACTS = Facts(
        "peek",
        calls=(("ready", 0, 100, 1),),                  # examples, on the busy queue of the tests
        fewest=4,                                       # arguments of a call
        refused={"odd": ("ready", 0)},                  # calls refused besides those out of range
        mistakes="test_peek.test_…\n …",                # as tests/facts/mistakes.py shows
    )

    @FACTS.worst("1,000 x 0.9 MiB in flight")           # `python -m benchmarks blocked` runs it
    def large(scene: Scene) -> Act: ...
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from benchmarks.worst.scene import Act, Prepare
from tests.facts.mistakes import Mutant, read
from tests.facts.parts import SHARED

Args = tuple[Any, ...]
#: Like `Prepare`, with arguments that `Facts.worst` gives.
Prepared = TypeVar("Prepared", bound=Callable[..., Act])


class Case(NamedTuple):
    """One bad state of a script's keys, or of its arguments."""

    script: str
    shape: str
    prepare: Prepare

    def __str__(self) -> str:
        return f"{self.script}: {self.shape}"


@dataclass(frozen=True)
class Facts:
    """The facts of one script.

    What Python passes to it, and what it does with the replies, stands in the ``requests.txt`` of
    the tests of its product.
    """

    script: str
    calls: tuple[Args, ...] = ()
    #: What follows the name of the queue in keys of a call that the header does not number.
    more_keys: tuple[str, ...] = ()
    changes_nothing: bool = False
    fewest: int = 0
    refused: Mapping[str, Args] = field(default_factory=dict)
    #: Arguments whose range depends on other arguments, too.
    dependent: tuple[str, ...] = ()
    #: Which arguments are bound to locals with the names in the header; others are walked over.
    named_arguments: Literal["all", "some", "none"] = "all"
    #: The mistakes, below the tests that notice them: see `tests.facts.mistakes`.
    mistakes: str = ""
    #: Values of a test's parameters that ``mistakes`` names.
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Filled by `worst`.
    cases: list[Case] = field(default_factory=list)

    def worst(self, shape: str, **given: Any) -> Callable[[Prepared], Prepared]:
        """Register a function that prepares a `Scene` and returns the operation to measure.

        Args:
            shape: what is bad; it names the case.
            given: further arguments of the function, so that one function can make several cases.
        """

        def register(prepare: Prepared) -> Prepared:
            self.cases.append(Case(self.script, shape, partial(prepare, **given)))
            return prepare

        return register

    @property
    def mutants(self) -> list[Mutant]:
        """The script with each of its mistakes."""
        return [
            Mutant(self.script, mistake, test)
            for test, mistake in read(self.mistakes, self.given, SHARED)
        ]
