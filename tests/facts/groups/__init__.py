"""The facts of the scripts in lua/groups."""
