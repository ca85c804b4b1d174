"""What a survey's findings mean, and what to do."""

import subprocess

import pytest

from ackq.ops.facts import Facts
from ackq.ops.survey import Survey
from ackq.ops.survey.advice import Advice, advise
from ackq.ops.survey.bodies import Sample
from ackq.ops.survey.clients import Users
from ackq.ops.survey.edges import End, Traffic
from ackq.ops.survey.neighbours import Search
from ackq.queue.messages import QueueStats

SOUND = Facts({"redis_version": "8.8.0", "maxmemory_policy": "noeviction"})


def survey(**seen: object) -> Survey:
    found = Survey("jobs", kind="list", facts=SOUND, search=Search({}, 1000, True))
    for name, value in seen.items():
        setattr(found, name, value)
    return found


def traffic(left: End | None = None, right: End | None = None, **more: object) -> Traffic:
    return Traffic(2.0, (5, 5), 40, True, left or End(), right or End(), **more)


def verdicts(advice: Advice) -> dict[str, str]:
    return {finding.check: finding.verdict for finding in advice.findings}


def text(advice: Advice, check: str) -> str:
    return next(finding.text for finding in advice.findings if finding.check == check)


@pytest.mark.parametrize(
    ("left", "right", "pushed", "taken", "step"),
    [
        (End(pushed=3), End(taken=3), "left", "right", "ackq.dropin.Redis"),
        (End(taken=3), End(pushed=3), "right", "left", 'pop_from="left"'),
        (End(pushed=3, taken=3), End(), "left", "left", "a stack"),
        (End(pushed=3), End(pushed=1, taken=3), "both", "right", "Both ends"),
        (End(), End(), None, None, "--for 60"),
    ],
)
def test_the_step_for_a_consumer_follows_from_the_ends(
    left: End, right: End, pushed: str | None, taken: str | None, step: str
) -> None:
    advice = advise(survey(traffic=traffic(left, right)))
    assert (advice.pushed, advice.taken) == (pushed, taken)
    assert any(step in each for each in advice.steps)


def test_where_the_ends_are_unclear_the_commands_of_the_server_tell() -> None:
    waiting = {"brpop": Users({"1"}, {"1"})}
    advice = advise(
        survey(
            kind="none",
            traffic=traffic(End(unclear=9), End(unclear=9)),
            clients=waiting,
            calls={"lpush": 4},
        )
    )
    assert (advice.pushed, advice.taken) == ("left", "right")
    assert text(advice, "takes").startswith("probably on the right: ")
    assert "brpop: 1, 1 of them waiting" in text(advice, "clients")
    unclear = advise(survey(traffic=traffic(End(unclear=9), End(unclear=9))))
    assert "its ends cannot tell how" in text(unclear, "takes")


def test_what_is_seen_at_the_list_outweighs_the_commands_of_the_server() -> None:
    advice = advise(
        survey(traffic=traffic(End(pushed=1), End(taken=1)), calls={"rpush": 1000, "lpop": 1000})
    )
    assert (advice.pushed, advice.taken) == ("left", "right")


@pytest.mark.parametrize(
    ("seen", "check"),
    [
        ({"kind": "hash"}, "list"),
        ({"expires_in": 60.0, "traffic": traffic()}, "list"),
        ({"name": "jobsBACKUP"}, "name"),
        ({"name": ""}, "name"),
        ({"facts": Facts({"cluster_enabled": "1"})}, "name"),
        ({"facts": Facts({"maxmemory_policy": "allkeys-lru"})}, "eviction"),
        ({"side_keys": {b"jobsBACKUP": "string"}}, "keys of ackq"),
        ({"sample": Sample(1, 1, system="Celery")}, "bodies"),
    ],
)
def test_what_is_in_the_way_is_a_problem_to_solve_first(
    seen: dict[str, object], check: str
) -> None:
    advice = advise(survey(**seen))
    assert not advice.sound
    assert verdicts(advice)[check] == "problem"
    assert "Celery" in advice.steps[0] or check in advice.steps[0]


def test_messages_in_work_forbid_both_kinds_of_consumer_at_once() -> None:
    """Those whose lease looks long expired, such as the article's, are counted too."""
    stats = QueueStats(9, 2, 0, 0, 48, 0, False, None)
    step = advise(survey(stats=stats)).steps[0]
    assert step.startswith("50 messages are in work")
    assert "Never run both kinds at once" in step
    idle = advise(survey(stats=QueueStats(9, 0, 0, 0, 0, 0, False, None)))
    assert not [each for each in idle.steps if "in work" in each]


def test_another_type_has_no_further_steps() -> None:
    assert len(advise(survey(kind="zset")).steps) == 1


def test_processing_lists_are_named_in_the_step_that_empties_them() -> None:
    lists: dict[bytes, int | None] = {b"jobs:processing": 3, b"jobs:working": None}
    advice = advise(survey(search=Search(lists, 20_000, False)))
    assert (
        text(advice, "processing lists")
        == "jobs:processing (3), jobs:working; searched about 20,000 keys, not all"
    )
    assert any(
        "ackq recover jobs jobs:processing jobs:working --dry-run" in step for step in advice.steps
    )
    moving = advise(survey(calls={"rpoplpush": 1}))
    assert any("ackq recover jobs LIST... --dry-run" in step for step in moving.steps)
    assert not any("recover" in step for step in advise(survey()).steps)


def test_commands_can_be_typed_as_they_are_shown() -> None:
    names = [b"jobs:a b", b"it's", b"a\\b\x1b[2J'\n", b"\xff", "jobs:\u65e5".encode(), b"$(id)"]
    advice = advise(survey(name="my jobs", search=Search(dict.fromkeys(names, 1), 20, True)))
    step = next(step for step in advice.steps if "ackq recover " in step)
    shown = step[step.index("ackq recover ") :].replace("ackq recover", "printf '%s\\0'", 1)
    typed = subprocess.run(["bash", "-c", shown], capture_output=True, check=True).stdout
    assert typed.split(b"\0")[:-1] == [b"my jobs", *names, b"--dry-run"]


def test_a_name_that_ackq_cannot_use_has_no_further_steps() -> None:
    assert advise(survey(name="jobs*")).steps == ("Solve first: name.",)


def test_messages_that_need_attention_get_a_step() -> None:
    advice = advise(
        survey(
            sample=Sample(
                9,
                9,
                5,
                repeated_ids=1,
                repeated_bodies=1,
                over_limit=1,
                largest=2_000_000,
                other_id="uuid",
            )
        )
    )
    assert verdicts(advice)["bodies"] == verdicts(advice)["duplicates"] == "warning"
    assert (
        text(advice, "ids") == "5 of 9 are JSON objects with an id; the others have 'uuid' instead"
    )
    steps = " ".join(advice.steps)
    assert all(word in steps for word in ("max_body_bytes=", "without an id", "dedup="))
    assert "1.9 MiB at most" in text(advice, "bodies")


def test_what_a_user_may_not_see_is_said_and_nothing_is_made_up() -> None:
    advice = advise(Survey("jobs", unseen=["TYPE", "INFO"]))
    assert text(advice, "not seen") == "this user may not use: TYPE, INFO"
    assert advice.sound
    assert set(verdicts(advice).values()) == {"unknown"}
    assert (advice.pushed, advice.taken) == (None, None)
