"""The one-line switch: redis-py's own calls on a real server, with consumers that are killed."""
