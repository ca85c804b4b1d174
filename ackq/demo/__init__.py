"""A real job under real faults, and an account that is checked.

Producers push plain ``LPUSH``, workers pop, work and ack through ackq. One worker is killed with
its hands full, another is frozen until its lease has ended and then wakes up and acks. In the
end the account, read from what each process wrote down for itself, must add up.

``source`` is the input, ``producer`` and ``worker`` are processes of their own, ``journal`` is
what they write, ``tally`` counts it, ``faults`` strikes, ``display`` shows it live, ``account``
checks it, and ``stage`` runs the whole.
"""

from ackq.demo.stage import Plan, run

__all__ = ["Plan", "run"]
