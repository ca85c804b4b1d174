"""The planted mistakes in the record of a sharded queue."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

R = "tests.sharded.test_record"
CREATES = f"{R}.test_open_creates_once_and_reads"
RANGE = f"{R}.test_open_refuses_a_number_out_of_range"

MUTANTS = (
    Mutant(
        "sharded/open",
        "overwrites the record",
        "redis.call('EXISTS', record) == 0",
        "true",
        CREATES,
    ),
    Mutant("sharded/open", "creates a record without a number", "shards == 0", "false", CREATES),
    Mutant(
        "sharded/open",
        "takes a queue of the first format for a new one",
        "  if common then",
        "  if false then",
        f"{R}.test_open_leaves_a_queue_of_the_first_format_as_it_is",
    ),
    Mutant("sharded/open", "any number", "outside(shards, 0, 1024)", "shards == nil", RANGE),
)
