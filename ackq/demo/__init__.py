"""Run a real job under real faults, and check that no message is lost.

Producers push with a plain ``LPUSH``; workers pop, work and ack through ackq. One worker is killed
while it holds messages. Another is frozen until its lease has ended, then wakes up and acks. At
the end, the journals that the processes wrote must add up.

``source`` has the input, ``processes`` what producers and workers do, ``journal`` is what they
write, ``children`` starts and ends them, ``faults`` kills and freezes, ``display`` shows progress,
``account`` checks the journals, and ``stage`` runs it all.
"""

from ackq.demo.stage import Plan, run

__all__ = ["Plan", "run"]
