"""`StagingBase`: rows that become visible with a commit, for writers of batches. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ackq.core.client import Client
from ackq.staging import operations
from ackq.staging.keys import Staged
from ackq.staging.operations import Delayed, Mover, StagingSpec


class StagingBase(Client):
    """Stages rows and commits them in batches, for any product."""

    _staging: StagingSpec

    def stage(
        self,
        batch: int,
        staged: Staged,
        bodies: Sequence[bytes],
        delayed: Sequence[Delayed] = (),
    ) -> None:
        """Store rows for the commit of ``batch``, and count them in ``staged``.

        Guarantee: no consumer sees the rows before the commit. Without a commit they expire after
        a day. No call is sent twice, since its rows would be stored twice: after any error, start
        again with a new `Staged`, or continue after `rename`. Cost: one round trip per 2,000 rows
        or 1 MiB.

        Args:
            batch: the batch number, 0 to 2**53 - 1.
            staged: used by this attempt of this task only. Pass it again to add rows.
            bodies: message bodies; the first is delivered first.
            delayed: pairs of the time when a message becomes ready, in microseconds since the
                epoch, and its body.

        Raises:
            ConfigurationError: the number or the task's name is invalid.
            StagingLost: the batch was aborted, or a day has passed.
            UnknownOutcome: the reply was lost.
        """
        self._run(operations.stage(self._staging, batch, staged, bodies, delayed))

    def rename(self, batch: int, staged: Staged, task: str) -> Staged:
        """Continue after `stage` has failed, with the rows that were staged before that call.

        Guarantee: the list that is returned holds the rows that ``staged`` counts. Calls whose
        replies were lost may still reach the server, but find no list. Safe to repeat with the
        same names. Cost: two round trips, and O(rows that are dropped).

        Args:
            batch: the batch number.
            staged: a copy from before the call that failed.
            task: a new name, unique to the attempt.

        Raises:
            ConfigurationError: the name is invalid.
        """
        return self._run(operations.rename(self._staging, batch, staged, task))

    def commit(self, batch: int, tasks: Iterable[Staged]) -> int:
        """Make the rows of ``tasks`` visible, once, and return how many there were.

        Guarantee: a single script call commits. After a crash before it, no rows are visible.
        After it, all rows arrive, at most 1,000 per call, even if this process dies: the next
        commit, or the next consumer that takes, moves the remaining rows. A batch that this
        writer has committed before, or one with a lower number, is dropped and counts 0. Staged
        rows of the batch from attempts that are not in ``tasks`` are deleted. Safe to repeat.

        Args:
            batch: the batch number.
            tasks: the staged rows of each task.

        Raises:
            StagingLost: rows of a task are gone; nothing was committed.
        """
        return self._run(operations.commit(self._staging, batch, tasks, self._mover()))

    def finish(self) -> int:
        """Move in committed rows that have not arrived, of any writer; return how many lists."""
        return self._run(operations.finish(self._staging, self._mover()))

    def abort(self, batch: int) -> int:
        """Delete rows staged for ``batch`` that are not committed; return how many lists.

        Committed rows are not deleted, even if they have not arrived yet.
        """
        return self._run(operations.abort(self._staging, batch))

    def discard(self, batch: int, staged: Staged) -> None:
        """Delete the rows that one attempt of a task staged, unless they are committed."""
        self._run(operations.discard(self._staging, batch, staged))

    def committed(self) -> int | None:
        """Return the last batch that this writer committed, or None if there is none."""
        return self._run(operations.committed(self._staging))

    def forget(self) -> None:
        """Delete the record of this writer's last batch, if it will never write again."""
        self._run(operations.forget(self._staging))

    def now(self) -> int:
        """Return the server's time in microseconds since the epoch."""
        return self._run(operations.now())

    def _mover(self) -> Mover:
        raise NotImplementedError
