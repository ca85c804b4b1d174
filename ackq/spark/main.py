"""What spark-submit runs: the command ``ackq``, with the arguments that follow."""

from ackq.cli import main

if __name__ == "__main__":
    main()
