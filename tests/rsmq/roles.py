"""What the processes do that the kill tests kill."""

import signal
from pathlib import Path

from ackq.rsmq import RSMQ


def write(journal: Path, line: str) -> None:
    """Append a line in one write, so that a kill leaves it whole or not at all."""
    with journal.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def receive_and_hold(url: str, ns: str, journal: Path) -> None:
    """Receive one message and never delete it."""
    message = RSMQ.from_url(url, ns).receive_message("q", vt=1, timeout=20)
    assert message is not None
    write(journal, message.id)
    signal.pause()


def work(url: str, ns: str, journal: Path, batch: int) -> None:
    """Receive and delete for ever, and log what was deleted."""
    with RSMQ.from_url(url, ns) as rsmq:
        while True:
            messages = rsmq.receive_messages("q", batch, vt=1, timeout=20)
            for message in messages:
                write(journal, message.message)
            rsmq.delete_messages("q", [message.id for message in messages])


def wait(url: str, ns: str, journal: Path) -> None:
    """Wait for one message, and note it."""
    with RSMQ.from_url(url, ns) as rsmq:
        message = rsmq.receive_message("q", vt=600, timeout=20)
        assert message is not None
        write(journal, message.message)


def send(url: str, ns: str, journal: Path) -> None:
    """Send batches for ever, and log what was certainly stored."""
    number = 0
    with RSMQ.from_url(url, ns) as rsmq:
        while True:
            texts = [str(number + n) for n in range(20)]
            rsmq.send_messages("q", texts)
            number += 20
            write(journal, " ".join(texts))
