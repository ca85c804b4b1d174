"""``python -m ackq.cli``: the command ``ackq``. spark-submit runs this file."""

from ackq.cli import main

if __name__ == "__main__":
    main()
