"""One call of a client: its span, and its duration as a metric."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter, time_ns

from opentelemetry.trace import Link, Span, SpanKind, StatusCode

from ackq.otel.telemetry import ERROR, Attributes, Telemetry, error_type


class Call:
    """A call that begins now."""

    def __init__(self, telemetry: Telemetry, attributes: dict[str, str | int]) -> None:
        """Note the time.

        Args:
            telemetry: makes the span.
            attributes: that the span has in common with the metrics.
        """
        self.attributes = attributes
        self._telemetry = telemetry
        self._began = perf_counter()
        self._since = time_ns()
        self._over: tuple[float, int] | None = None

    def start(
        self, kind: SpanKind, own: Attributes | None = None, links: Sequence[Link] = ()
    ) -> Span:
        """Start the span, from the time at which the call began."""
        self.span = self._telemetry.start(
            self.attributes, kind, own or {}, links, since=self._since
        )
        return self.span

    def replied(self) -> None:
        """Note that the call is over, although what surrounds it goes on."""
        if self._over is None:
            self._over = perf_counter(), time_ns()

    def fail(self, error: BaseException | None) -> None:
        """End the span after an error; None: there was none."""
        if error is not None:
            self._telemetry.note(self.span, error)
        self.end(error_type(error))

    def end(self, error: str = "") -> None:
        """End the span, with the type of the error if there was one."""
        if error:
            self.attributes[ERROR] = error
            self.span.set_attribute(ERROR, error)
            self.span.set_status(StatusCode.ERROR)
        ended, at = self._over or (perf_counter(), time_ns())
        self.span.end(at)
        self._telemetry.operation_duration.record(ended - self._began, self.attributes)
