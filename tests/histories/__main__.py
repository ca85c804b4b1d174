"""``python -m tests.histories FOLDER``: exit code 1 if a rule was broken."""

import sys
from pathlib import Path

from . import check

verdict = check(Path(sys.argv[1]))
print(verdict)
sys.exit(not verdict.sound)
