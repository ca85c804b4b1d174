"""The facts of the record of a queue's past: see `tests.facts.facts`."""

from ackq.ops.chronicle.store import history_key, update
from benchmarks.worst.scene import KIB, NAME, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.refused import bad

STORE_CALL = ("", "1", 60_000, "field", "value")
STORE = Facts(
    "history/store",
    calls=(STORE_CALL,),
    fewest=3,
    refused={
        **bad(STORE_CALL, {0: ("x" * 65,), 1: ("", "x" * 65), 4: ("x" * 524_288,)}),
        "no value": STORE_CALL[:4],
        "many fields": (*STORE_CALL[:3], *["field", "value"] * 65),
    },
    mistakes=r"""
ops.test_chronicle.test_a_record_that_others_have_written_is_left_alone
  overwrites what others wrote
  - if stored ~= before then
  + if false then
ops.test_chronicle.test_a_write_whose_reply_was_lost_is_not_repeated
  does not know its own version
  - if stored == version then
  + if stored == version .. '-' then
ops.test_chronicle.test_a_record_holds_what_was_written
  keeps empty fields
  - if ARGV[i + 1] == '' then
  + if false then
  never expires
  - redis.call('PEXPIRE', history,
  + redis.call('PTTL', history) --
""",
)


@STORE.worst("64 fields of 8 KiB")
def store(scene: Scene) -> Act:
    queue, key = scene.queue(), history_key("list", NAME)
    fields = {b"h%d" % number: b"x" * (8 * KIB - 8) for number in range(64)}
    numbers = iter(range(1_000_000))

    def write() -> None:
        token = f"token {next(numbers)}"
        assert queue.execute(lambda _: update(key, token, (), lambda _: fields))

    return times(20, write)
