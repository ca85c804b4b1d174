"""A test that starts the servers of the run before `plugin` forks."""

from tests.servers import Fleet, Survey


def test_the_servers_are_up(fleet: Fleet, survey: Survey) -> None:
    for kind in survey.offers:
        assert fleet.get(kind).control.ping()
