"""``python -m ackq.cli``: the command ``ackq``."""

from ackq.cli import main

if __name__ == "__main__":
    main()
