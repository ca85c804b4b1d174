"""The fault campaign: workloads under faults, whose histories `tests.histories` judges.

`python -m tests.campaign --list` names the scenarios; docs/campaign.md describes them and has the
results.
"""
