"""The pipeline of its page, on real data, from the public data set to files and dead letters."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ackq import Queue
from tests.servers.private import private_server

ROOT = Path(__file__).parents[2]
BLOCKS = r"```toml\n# cars\.toml\n(.*?)^```.*?^```sh\n(.*?)^```"


def example(page: str) -> tuple[str, str]:
    """Return the configuration and the commands that a page shows."""
    found = re.search(BLOCKS, (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1], found[2]


@pytest.mark.xdist_group("own-spark")
def test_the_example_runs_on_the_public_data_set(tmp_path: Path) -> None:
    config, commands = example("docs/pipeline.md")
    assert "vega_datasets" in commands
    (tmp_path / "cars.toml").write_text(config)
    lines = [line for line in commands.splitlines() if not line.startswith("pip ")]
    with private_server(tmp_path / "redis") as server:
        done = subprocess.run(
            ["sh", "-e"],
            input="\n".join(lines),
            cwd=tmp_path,
            check=False,
            timeout=200,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "ACKQ_REDIS_URL": server.url,
            },
        )
        assert done.returncode == 0, done.stderr[-3000:]
        with Queue.from_url(server.url, "cars") as queue:
            reasons = Counter(letter.reason for letter in queue.dead_letters(100))
            stats = queue.stats()
    assert reasons == {"null: Miles_per_Gallon": 8, "check: engine": 6}
    assert (stats.ready, stats.in_flight) == (0, 0)
    assert done.stdout.count("null: Miles_per_Gallon") == 8
    import pyarrow.dataset  # it imports pandas

    table = pyarrow.dataset.dataset(tmp_path / "cars", partitioning="hive").to_table()
    by_origin: Counter[str] = Counter()
    for row in table.to_pylist():
        by_origin[row["origin"]] += row["cars"]
    assert by_origin == {"USA": 245, "Japan": 79, "Europe": 68}
