"""How long does the exporter take for all queues of a server, and how long does Redis block?

Each queue has ready messages, one of them with a time, and one message in flight. One scrape is one
GET as Prometheus sends it, for OpenMetrics with gzip, to a process of its own.
"""

import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from ackq.bench.figures import Measure, Ratio, Result
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.stalls import Pings, pinging

PURPOSE = "A scrape of the exporter, for thousands of queues."
OURS, IDLE = "ackq exporter", "no scrape"
#: The prefix of every key.
KEY = "ackq-benchmark:exporter:"
#: Seconds that a scrape of all these queues may take.
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
                    with _exporter(server.url) as exporter, pinging() as pings:
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


@dataclass(frozen=True)
class _Exporter:
    """The command, running."""

    process: int
    address: tuple[str, int]
    #: How long it took until it could be scraped, the first reading of all queues included.
    start: float

    def scrape(self) -> int:
        """Scrape once, and return the size of the answer."""
        with closing(http.client.HTTPConnection(*self.address, timeout=600)) as connection:
            connection.request("GET", "/metrics", headers=HEADERS)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise AssertionError(f"status {answer.status}")
            return len(body)

    def cpu(self) -> float:
        """Return the seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _exporter(url: str) -> Iterator[_Exporter]:
    """Start ``ackq exporter``, and yield it once it can be scraped."""
    before = time.perf_counter()
    command = [
        sys.executable,
        "-c",
        "from ackq.cli import main; main()",
        "exporter",
        "--listen",
        "127.0.0.1:0",
    ]
    environment = {**os.environ, "ACKQ_REDIS_URL": url, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.search(r"http://([^:]+):(\d+)/", line)
            if match is None:
                raise AssertionError(f"the exporter did not start: {line}")
            start = time.perf_counter() - before
            yield _Exporter(process.pid, (match[1], int(match[2])), start)
        finally:
            process.terminate()


#: The figures of a round, with their units, by contestant.
Round = dict[tuple[str, str, str], float]


def _round(url: str, client: redis.Redis, exporter: _Exporter, pings: Pings) -> Round:
    server_before, cpu_before = _cpu_of(client), exporter.cpu()
    with pings.longest(url) as ping:
        before = time.perf_counter()
        size = exporter.scrape()
        seconds = time.perf_counter() - before
    cpu, server = exporter.cpu() - cpu_before, _cpu_of(client) - server_before
    with pings.longest(url) as idle:
        time.sleep(seconds)
    return {
        (OURS, "wall clock", "s"): seconds,
        (OURS, "exporter's CPU", "s"): cpu,
        (OURS, "server's CPU", "s"): server,
        (OURS, "start", "s"): exporter.start,
        (OURS, "longest ping", "ms"): ping[0] * 1000,
        (OURS, "size", "KiB"): size / 1024,
        (IDLE, "longest ping", "ms"): idle[0] * 1000,
    }


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
