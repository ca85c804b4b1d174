"""One adapter for each way to push, take and settle messages."""
