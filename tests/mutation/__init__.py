"""How strong the tests are: mistakes planted in the Python code, and whether a test notices.

``python -m tests.mutation`` draws mutants, runs the tests that call the changed function on each,
and stores the results; `report` shows them as a part of docs/campaign.md. tests/README.md says why
mutmut makes the mutants.
"""
