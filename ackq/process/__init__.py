"""Worker processes, as ``ackq work`` runs them: what they do, how they start, and their parent."""
