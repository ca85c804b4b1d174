"""The fixtures of this folder; tests/mutants has them too."""

import pytest

from tests.conftest import asked_for, survey_of
from tests.queue.scripts.fixtures import (
    BINARIES,
    left,
    own_client,
    own_space,
    scripts_directory,
    space,
)

__all__ = ["left", "own_client", "own_space", "scripts_directory", "space"]

#: What a script may answer differently is between the oldest server and the newest.
USUALLY = ("oldest", "newest")
#: Where one server is enough: Lua is 5.1 in all of them, and checks the same.
ON_ONE = ("tests.queue.scripts.test_arguments", "tests.queue.scripts.test_wrong_types")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on ``kind``, each server that it needs; on every plain one that was asked for."""
    if "kind" not in metafunc.fixturenames:
        return
    here = [each for each in BINARIES if each in survey_of(metafunc.config).offers]
    if not asked_for():
        here = [each for each in USUALLY if each in here] or here
        if metafunc.module.__name__ in ON_ONE:
            del here[1:]
    metafunc.parametrize("kind", here)
