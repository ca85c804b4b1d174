"""How long does the exporter take for all queues of a server, and how long does Redis block?

Each queue has ready messages, one of them with a time, and one message in flight. One scrape is one
GET as Prometheus sends it, for OpenMetrics with gzip.
"""

from __future__ import annotations

import gc
import http.client
import time
from collections.abc import Callable
from contextlib import closing

import redis

from ackq.bench.figures import Measure, Ratio, Result
from ackq.metrics.exporter import Exporter
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.picture import Picture
from benchmarks.servers import target
from benchmarks.stalls import Pings, pinging

PURPOSE = "A scrape of the exporter, for thousands of queues."
PICTURES = (
    Picture("scrape", "Seconds of one scrape", "wall clock"),
    Picture("blocked", "The longest ping during a scrape", "longest ping"),
)
OURS, IDLE = "ackq exporter", "no scrape"
#: The prefix of every key.
KEY = "ackq-benchmark:exporter:"
#: Seconds that a scrape of so many queues may take.
LIMIT, LIMITED = 1.0, 10_000
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0",
    "Accept-Encoding": "gzip",
}
FILL = """
for n = 1, ARGV[1] do
  local name = KEYS[1] .. n
  redis.call('LPUSH', name, ARGV[2], '{"id":"b"}', '{"id":"c"}')
  redis.call('ZADD', name .. 'BACKUP', '8e15', 'a')
  redis.call('HSET', name .. 'CONTEXT', 'a', '{"id":"a"}')
end
"""
EVENT = (
    '{"id":"e","specversion":"1.0","type":"order","source":"/shop","time":"2026-05-04T08:30:00Z"}'
)


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 12, quick=4, smoke=1, help="scrapes of each number of queues")
    options.size("queues", (1000, 10_000), quick=(10_000,), smoke=(10,), help="numbers of queues")


def run(settings: Settings) -> Result:
    """Measure every number of queues."""
    with target(settings.url) as server:
        result = Result("exporter", facts(server, settings))
        with closing(redis.Redis.from_url(server.url, socket_timeout=600)) as client:
            for count in settings.queues:
                case = f"{count:,} queues"
                progress(case)
                client.eval(FILL, 1, KEY, count, EVENT)
                try:
                    with Exporter(client) as exporter, pinging() as pings:
                        gc.freeze()  # as the command does
                        found = [
                            _round(server.url, client, exporter, pings)
                            for _ in range(settings.rounds)
                        ]
                finally:
                    for key in client.scan_iter(f"{KEY}*", count=10_000):
                        client.unlink(key)
                _report(result, case, found, count >= LIMITED)
    result.notes.append(
        "The longest ping is that of another process, which includes the time for which the machine"
        " did not run it: compare it with that of as long a time without a scrape."
    )
    return result


#: The figures of a round, with their units, by contestant.
Round = dict[tuple[str, str, str], float]


def _round(url: str, client: redis.Redis, exporter: Exporter, pings: Pings) -> Round:
    server_before, cpu_before = _cpu_of(client), time.process_time()
    with pings.longest(url) as ping:
        seconds, size = _timed(lambda: _scrape(exporter))
    cpu, server = time.process_time() - cpu_before, _cpu_of(client) - server_before
    with pings.longest(url) as idle:
        time.sleep(seconds)
    return {
        (OURS, "wall clock", "s"): seconds,
        (OURS, "exporter's CPU", "s"): cpu,
        (OURS, "server's CPU", "s"): server,
        (OURS, "longest ping", "ms"): ping[0] * 1000,
        (OURS, "size", "KiB"): size / 1024,
        (IDLE, "longest ping", "ms"): idle[0] * 1000,
    }


def _timed(act: Callable[[], int]) -> tuple[float, int]:
    before = time.perf_counter()
    found = act()
    return time.perf_counter() - before, found


def _scrape(exporter: Exporter) -> int:
    """Scrape once, and return the size of the answer."""
    with closing(http.client.HTTPConnection(*exporter.address, timeout=600)) as connection:
        connection.request("GET", "/metrics", headers=HEADERS)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise AssertionError(f"status {answer.status}")
        return len(body)


def _cpu_of(client: redis.Redis) -> float:
    info = client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def _report(result: Result, case: str, rounds: list[Round], limited: bool) -> None:
    for contestant, figure, unit in rounds[0]:
        values = tuple(each[contestant, figure, unit] for each in rounds)
        result.measures.append(Measure(case, contestant, figure, unit, values))
    seconds = tuple(each[OURS, "wall clock", "s"] for each in rounds)
    what = f"{case}: seconds of a scrape"
    result.ratios.append(Ratio(what, seconds, LIMIT if limited else None, True))
