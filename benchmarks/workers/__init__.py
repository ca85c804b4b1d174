"""The workers that are compared, and the environments that they need.

``python peers/FILE URL MESSAGES SLEEP CONCURRENCY`` pushes, starts one worker, and prints the
seconds from the first call of its handler to the last; ``peers/counting.py`` is what they share.
"""
