"""Histories of a run, and the checker that judges them. It knows queues, and nothing of ackq.

``python -m tests.histories FOLDER`` reads ``settings.json`` and the files in ``history/``,
and prints the verdict.
"""

from .rules import RULES, check
from .verdict import Verdict

__all__ = ["RULES", "Verdict", "check"]
