"""Operating queues: doctor, search, figures, workers, access rules, moves."""
