"""Each role under its own rules."""
