"""Consumer groups: heartbeats, and which member serves which partition."""
