"""What each Python process of a run of mutants does first; see `tests.mutation.children`."""

import os
import sys
from pathlib import Path

if "ACKQ_MUTATION_CHILD" in os.environ:
    sys.path.insert(0, root := str(Path(__file__).parents[3]))
    from tests.mutation.children import begin

    sys.path.remove(root)
    begin()
