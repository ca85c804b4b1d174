"""Read a queue as an executor of Spark does, from Redis to Arrow: by type, and with bad bodies.

Everything but Spark: one process reads claimed messages and parses them with a schema. Ratios are
taken between neighbours, clean bodies first. Times are those of this process's processor.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson
import redis

from ackq import Queue
from ackq.bench.figures import Result
from ackq.bench.rounds import Round, Rounds, duel, measures_of
from ackq.queue.claims_client import Claims
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.spark_queries import absent

PURPOSE = "Read JSON from a queue into Arrow as Spark's executors do, by type and with bad bodies."
NAME, GROUP = "ackq-benchmark:parse", "benchmark"
CLEAN = "ackq, clean"
#: Columns and their types, as in the JSON of Spark's schemas.
SCHEMA = {"id": "string", "n": "long", "price": "double", "name": "string", "ok": "boolean"}
STRUCT = {
    "type": "struct",
    "fields": [{"name": "d", "type": "date", "nullable": True, "metadata": {}}],
}
MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


def body(n: int, /, **fields: Any) -> bytes:
    """Return a body of about 230 bytes, of which the schema reads a third."""
    known = {"id": f"m{n:08d}", "n": n, "price": n / 7, "name": f"name {n}", "ok": n % 2 == 0}
    return orjson.dumps({**known, **fields, "payload": "x" * 150})


def every(period: int, bad: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return clean bodies, but for one in ``period``."""
    return lambda n: body(n) if n % period else bad(n)


def with_column(**field: Callable[[int], Any]) -> Callable[[int], bytes]:
    """Return bodies with one more field."""
    ((name, value),) = field.items()
    return lambda n: body(n, **{name: value(n)})


class Case(NamedTuple):
    """Bodies, and how they are read."""

    bodies: Callable[[int], bytes]
    columns: Mapping[str, Any] = {}  #: in addition to `SCHEMA`
    zone: str = "UTC"
    least: float | None = None  #: of the rate of clean bodies


def _day(n: int) -> str:
    return f"2024-02-{n % 28 + 1:02d}"


def _time(n: int) -> str:
    return f"{_day(n)}T12:30:{n % 60:02d}"


CASES = {
    CLEAN: Case(body),
    "1 in 3500 is no JSON": Case(every(3500, lambda n: b"no JSON"), least=0.85),
    "1 % are cut short": Case(every(100, lambda n: body(n)[:-9]), least=0.85),
    "1 % have a text for a number": Case(every(100, lambda n: body(n, n="many")), least=0.85),
    "1 % have a number for a text": Case(every(100, lambda n: body(n, name=n)), least=0.85),
    "a blank in front": Case(lambda n: b" " + body(n), least=0.7),
    "a newline at the end": Case(lambda n: body(n) + b"\n", least=0.7),
    "decimal": Case(with_column(d=lambda n: n / 100), {"d": "decimal(10,2)"}, least=0.7),
    "timestamp": Case(with_column(t=lambda n: _time(n) + "Z"), {"t": "timestamp"}, least=0.7),
    "timestamp, another zone": Case(with_column(t=_time), {"t": "timestamp"}, "Europe/Berlin", 0.7),
    "timestamp_ntz": Case(with_column(t=_time), {"t": "timestamp_ntz"}, least=0.7),
    "date in a struct": Case(with_column(o=lambda n: {"d": _day(n)}), {"o": STRUCT}, least=0.7),
    "map": Case(with_column(m=lambda n: {"a": "x", "b": f"y{n}"}), {"m": MAP}, least=0.7),
}


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 9, quick=5, smoke=1, help="of each case")
    options.size("messages", 35_000, quick=14_000, smoke=200, help="of each case")


def run(settings: Settings) -> Result:
    """Fill a queue for each case, claim it, and read it in turns with the clean one."""
    with target(settings.url) as server:
        result = Result("parse", facts(server, settings))
        if why := absent():
            result.notes.append(f"Everything is left out: {why}.")
            return result
        with redis.Redis.from_url(server.url) as client:
            try:
                rounds = _measure(server.url, settings)
            finally:
                for key in client.scan_iter(f"{NAME}*", count=1000):
                    client.unlink(key)
    for name, (clean, dirty) in rounds.items():
        pair: Rounds = {CLEAN: clean, name: dirty}
        result.measures += measures_of("read and parse", {name: dirty})
        if name != CLEAN:
            result.ratios += duel("", pair, name, CLEAN, CASES[name].least)
    return result


def _measure(url: str, settings: Settings) -> dict[str, tuple[list[Round], list[Round]]]:
    reads = {
        name: _claimed(url, number, case, settings.messages)
        for number, (name, case) in enumerate(CASES.items())
    }
    rounds: dict[str, tuple[list[Round], list[Round]]] = {}
    for name, read in reads.items():
        progress(name)
        reads[CLEAN](), read()
        pairs = [(reads[CLEAN](), read()) for _ in range(settings.rounds)]
        rounds[name] = ([clean for clean, _ in pairs], [dirty for _, dirty in pairs])
    return rounds


def _claimed(url: str, number: int, case: Case, messages: int) -> Callable[[], Round]:
    """Fill and claim a queue; return what reads it once."""
    from pyspark.sql.types import StructType

    from ackq.spark.claim_reader import Slice
    from ackq.spark.options import Reading
    from ackq.spark.stream import QueueStream

    name = f"{NAME}:{number}"
    with Queue.from_url(url, name) as queue, Claims.from_url(url, name, GROUP) as claims:
        queue.push_many(list(map(case.bodies, range(messages))))
        claims.begin()
        claim = claims.claim(0, messages=messages)
        assert claim is not None
    columns = {**SCHEMA, **case.columns, "_corrupt_record": "string"}
    fields = [
        {"name": column, "type": kind, "nullable": True, "metadata": {}}
        for column, kind in columns.items()
    ]
    options = {"queue": name, "groupId": GROUP, "url": url, "timeZone": case.zone}
    stream = QueueStream(Reading.of(options), StructType.fromJson({"fields": fields}))
    part = Slice(name, claim.batch, 0, claim.rows, None)

    def read() -> Round:
        before = time.process_time()
        rows = sum(batch.num_rows for batch in stream.read(part))
        return Round(rows, time.process_time() - before, math.nan)

    return read
