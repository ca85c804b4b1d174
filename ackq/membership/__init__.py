"""Consumer groups: heartbeats, and who serves which partition."""
