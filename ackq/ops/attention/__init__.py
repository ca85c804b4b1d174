"""What needs a person now: one model, which pages, commands, metrics and alerts show alike.

`model` turns figures into troubles and is pure, as are `marks`, which keeps what happened to a
queue, and `steady`, which keeps troubles from flapping. `watch` reads the figures.
"""
