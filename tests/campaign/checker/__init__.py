"""Judges the histories of a run. It knows queues, and nothing of ackq.

``python -m tests.campaign.checker FOLDER`` reads ``settings.json`` and the files in ``history/``,
and prints the verdict.
"""

from .rules import RULES, check
from .verdict import Verdict

__all__ = ["RULES", "Verdict", "check"]
