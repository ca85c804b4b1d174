"""The list queue."""
