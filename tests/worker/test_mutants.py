"""Every mistake planted in a script of the list of workers is noticed by the test beside it."""

from __future__ import annotations

import pytest

from tests.mutants.planting import Mutant
from tests.servers import Target

from .test_list_scripts import call

__all__ = ["call"]  # a fixture of the tests that are run here

CONFIRMED = "test_list_scripts.test_an_order_waits_until_it_is_confirmed"
NEWER = "test_list_scripts.test_a_confirmation_does_not_delete_a_newer_order"
ENDED = "test_list_scripts.test_a_worker_whose_entry_ended_is_not_listed_and_then_deleted"
EXPIRES = "test_list_scripts.test_a_heartbeat_lists_a_worker_until_its_entry_ends"
HUNDRED = "test_list_scripts.test_one_heartbeat_deletes_a_hundred_entries"
LASTS = "test_list_scripts.test_the_keys_last_as_long_as_the_last_entry"
FROZEN = "test_list_scripts.test_an_order_outlives_the_entry_of_a_frozen_worker"
LEAVES = "test_list_scripts.test_a_worker_that_leaves_takes_its_order_along"
ABSENT = "test_list_scripts.test_a_worker_that_is_not_listed_gets_no_order"
LONG = "test_list_scripts.test_a_record_that_is_too_long_is_not_read"
EVERY = "test_list_scripts.test_every_worker_is_listed_a_hundred_or_so_at_a_time"

MUTANTS = (
    Mutant(
        "heartbeat",
        "deletes any order",
        "if order and order == obeyed then",
        "if order then",
        CONFIRMED,
    ),
    Mutant(
        "heartbeat",
        "keeps an order that is confirmed",
        "redis.call('HDEL', orders, worker)",
        "redis.call('HGET', orders, worker)",
        CONFIRMED,
    ),
    Mutant(
        "heartbeat",
        "confirms by the verb",
        "order == obeyed then",
        "string.match(order, '%a+$') == string.match(obeyed, '%a+$') then",
        NEWER,
    ),
    Mutant("heartbeat", "returns no order", "return order or ''", "return ''", CONFIRMED),
    Mutant("heartbeat", "keeps dead entries", "if #ended > 0 then", "if false then", ENDED),
    Mutant(
        "heartbeat", "keeps dead records", "  redis.call('HDEL', doing, unpack(ended))\n", "", ENDED
    ),
    Mutant(
        "heartbeat",
        "deletes orders of the dead",
        "  redis.call('HDEL', doing, unpack(ended))",
        "  redis.call('HDEL', doing, unpack(ended))\n  redis.call('HDEL', orders, unpack(ended))",
        FROZEN,
    ),
    Mutant("heartbeat", "deletes without a bound", ", 'LIMIT', 0, 100)", ")", HUNDRED),
    Mutant("heartbeat", "never expires", "redis.call('PEXPIRE', doing, left)", "", EXPIRES),
    Mutant(
        "heartbeat", "shortens the life of others", "(tonumber(last[2]) - now)", "lifetime", LASTS
    ),
    Mutant(
        "heartbeat",
        "keeps the first record",
        "redis.call('HSET', doing",
        "redis.call('HSETNX', doing",
        EXPIRES,
    ),
    Mutant("leave", "keeps the record", "redis.call('HDEL', doing, worker)", "", LEAVES),
    Mutant("leave", "keeps the order", "redis.call('HDEL', orders, worker)", "", LEAVES),
    Mutant(
        "order",
        "reaches the dead",
        "found[i - 1] = ends > now and 1 or 0\n  if ends > now then",
        "found[i - 1] = ends > 0 and 1 or 0\n  if ends > 0 then",
        ABSENT,
    ),
    Mutant("order", "reaches who is not there", "if ends > now then", "if true then", ABSENT),
    Mutant("order", "never expires", "    redis.call('PEXPIRE', orders, 86400000)\n", "", ABSENT),
    Mutant(
        "order", "has no time", "string.format('%.0f', now) .. ':' .. order", "':' .. order", NEWER
    ),
    Mutant("list", "shows the dead", "if ends > now then", "if true then", ENDED),
    Mutant("list", "reads long records", "<= 8192", "<= 1000000", LONG),
    Mutant("list", "reads all at once", "'COUNT', 100", "'COUNT', 100000", EVERY),
    Mutant(
        "list", "stops early", "local found = { page[1], now }", "local found = { '0', now }", EVERY
    ),
    Mutant("list", "hides orders", "redis.call('HGET', orders, worker) or ''", "''", CONFIRMED),
)


@pytest.mark.one_server
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_planted_mistake_is_noticed(
    mutant: Mutant,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    target: Target,
) -> None:
    assert mutant.is_noticed("worker", request, monkeypatch)
