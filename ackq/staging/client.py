"""`Staging`: rows that become visible with a commit, for writers of batches. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ackq.core.client import Client
from ackq.staging import operations
from ackq.staging.keys import Staged
from ackq.staging.operations import Delayed, Mover, StagingSpec


class StagingBase(Client):
    """What stages rows and commits them by the batch, whatever they go to."""

    _staging: StagingSpec

    def stage(
        self,
        batch: int,
        staged: Staged,
        bodies: Sequence[bytes],
        delayed: Sequence[Delayed] = (),
    ) -> None:
        """Put rows aside for the commit of ``batch``, and count them in ``staged``.

        Guarantee: nobody sees them before the commit. Without one they expire after a day. No
        call is sent twice, since its rows would be there twice: after any error start anew with
        another `Staged`. One round trip per 2,000 rows or 1 MiB.

        Args:
            batch: its number, 0 to 2**53 - 1.
            staged: of this attempt of this task alone; it may be passed again to add more.
            bodies: the first comes first.
            delayed: pairs of the time when a message becomes ready, in microseconds since the
                epoch, and its body.

        Raises:
            ConfigurationError: the number or the task's name cannot be one.
            StagingLost: the batch was aborted, or a day has passed.
            UnknownOutcome: the reply was lost.
        """
        self._run(operations.stage(self._staging, batch, staged, bodies, delayed))

    def commit(self, batch: int, tasks: Iterable[Staged]) -> int:
        """Make the rows of ``tasks`` visible, once, and return how many that were.

        Guarantee: one script decides. Before it a crash leaves nothing to see; after it all
        rows arrive, in steps of at most 1,000, even if this process dies: what is left is moved
        by the next commit, or by the next consumer that takes. A batch that this writer has
        committed before is dropped and counted as 0, and so is one with a lower number. Other
        staged rows of the batch, of attempts that are not named, are deleted. Safe to repeat.

        Args:
            batch: its number.
            tasks: what each task staged.

        Raises:
            StagingLost: rows of a task are gone; nothing was committed.
        """
        return self._run(operations.commit(self._staging, batch, tasks, self._mover()))

    def finish(self) -> int:
        """Move in what is committed and not there yet, of any writer; count the lists."""
        return self._run(operations.finish(self._staging, self._mover()))

    def abort(self, batch: int) -> int:
        """Delete what is staged for ``batch`` and not committed; return how many lists.

        What was committed is left alone, even where it has not arrived yet.
        """
        return self._run(operations.abort(self._staging, batch))

    def discard(self, batch: int, staged: Staged) -> None:
        """Delete what one attempt of a task staged, unless it is committed."""
        self._run(operations.discard(self._staging, batch, staged))

    def committed(self) -> int | None:
        """Return the last batch that this writer committed; None: it has committed none."""
        return self._run(operations.committed(self._staging))

    def forget(self) -> None:
        """Forget the last batch, of a writer that will never come back."""
        self._run(operations.forget(self._staging))

    def now(self) -> int:
        """Return the server's time in microseconds since the epoch."""
        return self._run(operations.now())

    def _mover(self) -> Mover:
        raise NotImplementedError
