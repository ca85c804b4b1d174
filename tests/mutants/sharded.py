"""The planted mistakes in the record of a sharded queue."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

R = "tests.sharded.test_record"
CREATES = f"{R}.test_open_creates_once_and_reads"
R2 = "tests.sharded.test_resize"
CHANGES = f"{R2}.test_a_change_needs_the_version_that_it_is_based_on"
RETIRES = f"{R2}.test_a_shard_is_retired_only_if_it_has_nothing"
REVIVES = f"{R2}.test_a_shard_is_revived_by_a_later_version_only"
LOOK = "tests.sharded.test_choice.test_a_look_counts_what_a_pop_would_take"
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
    Mutant(
        "sharded/change",
        "overwrites what others changed",
        "tonumber(redis.call('HGET', record, 'version')) ~= version",
        "false",
        CHANGES,
    ),
    Mutant(
        "sharded/change",
        "keeps the version",
        "'HINCRBY', record, 'version', 1",
        "'HINCRBY', record, 'version', 0",
        CHANGES,
    ),
    Mutant("sharded/change", "keeps the former numbers", ", 'draining', draining)", ")", CHANGES),
    Mutant("sharded/change", "any number", "outside(shards, 1, 1024)", "false", CHANGES),
    Mutant("sharded/change", "any text", "string.find(draining, '[^%d ]')", "false", CHANGES),
    Mutant("sharded/change", "text of any length", "#draining > 8192", "false", CHANGES),
    Mutant(
        "sharded/retire",
        "closes a shard that has something",
        "      return 0\n    end\n  end",
        "    end\n  end",
        RETIRES,
    ),
    Mutant(
        "sharded/retire",
        "takes dead letters for an empty stream",
        "redis.call('XLEN', dead) == 0",
        "true",
        RETIRES,
    ),
    Mutant("sharded/retire", "an empty stream keeps it open", "and not empty ", "", RETIRES),
    Mutant(
        "sharded/retire",
        "does not close it for later messages",
        "redis.call('MSET', ready, text, context, text)",
        "redis.call('SET', ready, text)",
        RETIRES,
    ),
    Mutant(
        "sharded/retire",
        "an older version replaces a newer one",
        "if since < version then",
        "if true then",
        RETIRES,
    ),
    Mutant(
        "sharded/retire",
        "keeps an older version",
        "if since < version then",
        "if since == 0 then",
        RETIRES,
    ),
    Mutant("sharded/retire", "any version", "outside(version, 1,", "outside(version, 0,", RETIRES),
    Mutant(
        "sharded/revive",
        "opens what was closed at the same version",
        ">= version then",
        "> version then",
        REVIVES,
    ),
    Mutant(
        "sharded/revive",
        "deletes messages",
        "redis.call('TYPE', ready).ok ~= 'string'",
        "redis.call('TYPE', ready).ok == 'none'",
        REVIVES,
        error=True,
    ),
    Mutant(
        "sharded/revive",
        "leaves it closed for later messages",
        "redis.call('DEL', ready, context)",
        "redis.call('DEL', ready)",
        REVIVES,
    ),
    Mutant(
        "sharded/revive",
        "any version",
        "if outside(version, 1, 9007199254740991) then",
        "if not version then version = 0 elseif false then",
        REVIVES,
    ),
    Mutant(
        "sharded/look", "forgets what was handed over", " + redis.call('LLEN', handoff)", "", LOOK
    ),
    Mutant(
        "sharded/look",
        "ended leases do not count",
        "{backup, delayed, held}",
        "{delayed, held}",
        LOOK,
    ),
    Mutant(
        "sharded/look",
        "due messages do not count",
        "{backup, delayed, held}",
        "{backup, held}",
        LOOK,
    ),
    Mutant(
        "sharded/look",
        "held lists do not count",
        "{backup, delayed, held}",
        "{backup, delayed}",
        LOOK,
    ),
    Mutant(
        "sharded/look",
        "waits for the last event",
        "tonumber(first) - now < wait",
        "tonumber(first) - now > wait",
        LOOK,
    ),
    Mutant(
        "sharded/look", "does not see that it is paused", "redis.call('EXISTS', paused)", "0", LOOK
    ),
    Mutant(
        "sharded/retire",
        "overwrites the string of another program",
        "redis.call('GET', ready))\n",
        "redis.call('GET', ready)) or 0\n",
        RETIRES,
    ),
)
