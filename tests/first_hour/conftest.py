"""The environments that the tests of this folder share."""

import pytest

from tests.first_hour.environment import Environments


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    return Environments(tmp_path_factory.mktemp("environments"))
