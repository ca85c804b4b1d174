"""``ackq schedules``."""

import json

from tests.cli.conftest import Run


def test_a_schedule_is_put_listed_paused_and_removed(ackq: Run, token: str) -> None:
    put = ("schedules", "put", token, "report", '{"task": "report"}')
    done = ackq(*put, "--cron", "0 9 * * 1", "--zone", "Europe/Berlin")
    assert done.stdout.startswith("report stored, next at ")
    assert ackq(*put, "--every", "60", "--catch-up", "last", "--unique", "done").stdout.startswith(
        "report replaced"
    )
    done = ackq(*put, "--every", "60", "--catch-up", "last", "--unique", "done")
    assert done.stdout.startswith("report unchanged, next at ")
    listed = ackq("schedules", "list", token)
    assert "schedules in the code of workers are not listed" in listed.stderr
    (line,) = listed.stdout.splitlines()
    name, _, _, missed, every, _, message = line.split("\t")
    assert (name, missed, every, message) == ("report", "0", "60 s", '{"task":"report"}')
    listed = json.loads(ackq("schedules", "list", token, "--json").stdout)
    assert (listed["catch_up"], listed["unique"], listed["paused"]) == ("last", "done", False)
    assert ackq("schedules", "pause", token, "report").stdout == "report paused\n"
    assert "paused" in ackq("schedules", "list", token).stdout
    assert "replaced, still paused" in ackq(*put, "--cron", "@weekly").stdout
    assert ackq("schedules", "resume", token, "report").stdout == "report resumed\n"
    assert ackq("schedules", "remove", token, "report").stdout == "report removed\n"
    for verb in ("pause", "resume", "remove"):
        gone = ackq("schedules", verb, token, "report", code=1)
        assert "has no schedule 'report'" in gone.stderr
