"""The planted mistakes in the script that writes a pipeline's rejected rows."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "test_row_dead_letters"
OVER = f"{T}.test_rows_of_a_batch_that_was_not_begun_or_is_over_change_nothing"
ONCE = f"{T}.test_a_row_is_appended_once_while_its_batch_runs"

MUTANTS = (
    Mutant(
        "pipeline/reject",
        "rows of any batch are taken",
        "if rows > 0 and known ~= batch then",
        "if false then",
        OVER,
    ),
    Mutant(
        "pipeline/reject",
        "rows that came before are appended again",
        "redis.call('HSETNX', rejected, 'row:' .. ARGV[at], '') == 1",
        "true",
        ONCE,
    ),
    Mutant(
        "pipeline/reject",
        "a batch that begins again forgets its rows",
        "if known ~= batch then\n  redis.call('UNLINK'",
        "if rows == 0 then\n  redis.call('UNLINK'",
        ONCE,
    ),
    Mutant(
        "pipeline/reject",
        "the rows of the former batch are remembered",
        "redis.call('UNLINK', rejected)",
        "redis.call('EXISTS', rejected)",
        f"{T}.test_a_new_batch_forgets_the_rows_of_the_former",
    ),
)
