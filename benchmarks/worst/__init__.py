"""The scenes of the worst cases. The cases themselves stand in the facts of each script."""
