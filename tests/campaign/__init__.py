"""The fault campaign: workloads under faults, histories of what happened, a checker that judges.

`python -m tests.campaign --list` names the scenarios; docs/campaign.md describes them and has the
results.
"""
