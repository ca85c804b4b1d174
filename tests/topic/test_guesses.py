"""What a topic guesses, waits and draws between two requests, with no server."""

import math

from ackq.core.io.outside import SYSTEM
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic.consume import consume
from ackq.topic.keys import TopicKeys
from ackq.topic.spec import MAX_PAUSE, MAX_SLACK, Guess, TopicConfig, TopicSpec, pause
from tests.steps import play

SPEC = TopicSpec("t", TopicKeys.of("t"), TopicConfig(), outside=SYSTEM)


def test_a_guess_that_was_right_declares_fewer_spare_keys_and_one_that_was_wrong_more() -> None:
    guess = Guess()
    guess.missed(1000)  # the first time says nothing about the speed of others
    assert (guess.after, guess.slack, guess.known) == (1000, 0, True)
    guess.missed(1003)
    assert (guess.after, guess.slack) == (1003, 6)
    guess.missed(1004)
    assert guess.slack == 12
    guess.missed(1000)  # started again
    guess.missed(1000 + MAX_SLACK + 1)  # or moved far away
    assert (guess.after, guess.slack) == (1000 + MAX_SLACK + 1, 12)
    guess.hit(1, 2000)
    assert (guess.after, guess.slack) == (2000, 10)
    guess.hit(7, 2001)
    assert guess.slack == 14
    guess.missed(2001 + MAX_SLACK)
    assert guess.slack == MAX_SLACK
    guess.hit(MAX_SLACK, 3000)
    assert guess.slack == MAX_SLACK
    guess = Guess(slack=1)
    guess.hit(0, 5)
    assert guess.slack == 0


def test_pauses_between_attempts_grow_to_their_limit() -> None:
    assert all(0 <= pause(SPEC, 2).seconds <= 0.002 for _ in range(50))
    longest = max(pause(SPEC, 10_000).seconds for _ in range(50))
    assert MAX_PAUSE / 2 < longest <= MAX_PAUSE


def test_each_attempt_to_read_has_its_token() -> None:
    unfinished = UnfinishedCommits("t")
    unfinished._next_check = math.inf  # it has just looked
    steps = consume(SPEC, "c", 5, None, None, (), unfinished)
    asked, _ = play(steps, 0.0, [b"moved", [], 20, 18], [b"empty", [], 20, -1])
    assert asked[1].args[-2] != asked[2].args[-2]
