"""What a new user and a new contributor meet first."""
