"""What the tools of operators do with a queue of every kind."""
