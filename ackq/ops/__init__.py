"""Operating queues: doctor, discovery, monitor, access rules, moves."""
