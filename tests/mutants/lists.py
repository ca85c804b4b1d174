"""The planted mistakes in what reads several queues together."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "test_lists"
FIGURES = f"{T}.test_the_figures_are_those_of_the_scripts_for_one_queue"
BODIES = f"{T}.test_a_body_that_is_too_long_or_without_a_time_is_not_returned"
WRONG = f"{T}.test_a_queue_with_a_wrong_key_leaves_the_others_readable"
WINDOW = f"{T}.test_counting_goes_on_for_the_longest_window"
BUDGET = f"{T}.test_one_call_walks_a_hundred_lists_and_reads_32_kibibytes_of_bodies"
S = "overview/lists"

MUTANTS = (
    Mutant(
        S,
        "a set whose first time has not come is empty",
        "if not first then",
        "if not first or first > now then",
        FIGURES,
    ),
    Mutant(S, "a time that has come now has not", "first <= now and", "first < now and", FIGURES),
    Mutant(
        S,
        "running leases have ended",
        "'ZCOUNT', zset, '-inf', now_text",
        "'ZCOUNT', zset, '-inf', '+inf'",
        FIGURES,
    ),
    Mutant(
        S, "running claims are returned", "if from > now then", "if from > now + 1 then", FIGURES
    ),
    Mutant(
        S,
        "messages for later are ready",
        "string.sub(lists[i], -8) == ':delayed'",
        "false",
        FIGURES,
    ),
    Mutant(
        S,
        "lists without messages are ready",
        "if rows > 0 and from > 0 then",
        "if from > 0 then",
        FIGURES,
    ),
    Mutant(
        S,
        "a list without a time is ready since 1970",
        "if rows > 0 and from > 0 then",
        "if rows > 0 then",
        FIGURES,
    ),
    Mutant(
        S,
        "a list without a time is not ready",
        "untimed = untimed or rows > 0 and from <= 0",
        "untimed = false",
        FIGURES,
    ),
    Mutant(
        S, "a staged list counts as a claim", "if is_claim(lists[i]) then", "if true then", FIGURES
    ),
    Mutant(S, "claims are not in flight", "rows_in_claims = rows_in_claims + rows", "", FIGURES),
    Mutant(
        S,
        "the ready list comes first",
        "handed > 0 and KEYS[first + 2] or KEYS[first]",
        "KEYS[first]",
        FIGURES,
        error=True,
    ),
    Mutant(S, "reads the newest message", ", -1)\n    bytes", ", 0)\n    bytes", FIGURES),
    Mutant(S, "workers that are gone count", "'(' .. now_text, '+inf'", "'-inf', '+inf'", FIGURES),
    Mutant(
        S,
        "messages in held lists are not in the queue",
        "+ claimed + returned + later\n",
        "\n",
        FIGURES,
    ),
    Mutant(
        S,
        "the age of delayed messages does not count",
        "due > 0 and due_time or math.huge",
        "math.huge",
        FIGURES,
    ),
    Mutant(
        S,
        "the age of ended leases does not count",
        "expired > 0 and deadline or math.huge",
        "math.huge",
        FIGURES,
    ),
    Mutant(
        S,
        "the age of ended claims does not count",
        "since = math.min(since, from)\n",
        "\n",
        FIGURES,
    ),
    Mutant(S, "returns bodies of any length", "#body > LONGEST or ", "", BODIES, {"filler": 1}),
    Mutant(
        S,
        "returns bodies that need not have a time",
        " or not (has(body, member) or has(body, other))",
        "",
        BODIES,
        {"filler": 0},
    ),
    Mutant(
        S,
        "one wrong key makes all queues unreadable",
        "pcall(figures, first)",
        "true, figures(first)",
        WRONG,
        error=True,
    ),
    Mutant(
        S,
        "a key of another type under the workers makes a queue unreadable",
        "redis.pcall('ZCOUNT'",
        "redis.call('ZCOUNT'",
        WRONG,
    ),
    Mutant(
        S,
        "counts in a queue that cannot be read",
        "redis.call('HLEN', KEYS[first + 7])\n",
        "counts(KEYS[first + 8], 0, 0)\n",
        WRONG,
    ),
    Mutant(
        S, "counts without a window", "if window == 0 then", "if false then", WINDOW, error=True
    ),
    Mutant(
        S,
        "a shorter window shortens a longer one",
        "if redis.call('PTTL', counters) < window then",
        "if true then",
        WINDOW,
    ),
    Mutant(S, "any number of held lists in one call", "walked >= MOST or ", "", BUDGET),
    Mutant(S, "any number of bytes in one call", " or bytes >= READ", "", BUDGET),
)
