"""Programs for developers of ackq: none is installed."""
