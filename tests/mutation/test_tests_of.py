"""The tests of a line."""

from .tests_of import main, running


def test_the_tests_of_a_statement_begin_with_those_that_run_the_least_else() -> None:
    places = {"wide": ["f+1", "f+2", "g+1"], "narrow": ["f+1"], "other": ["g+1"]}
    tests = {name: {"places": those} for name, those in places.items()}
    assert running("f+1", tests) == ["narrow", "wide"]


def test_what_is_no_line_is_refused_before_anything_is_recorded() -> None:
    assert "name a line" in (main("ackq/queue/take.py") or "")
    assert "name a line" in (main("ackq/queue/none.py:1") or "")
    assert "no statement" in (main("ackq/queue/take.py:1") or "")
