"""What looks after queues: doctor, discovery, monitor, access rules, moves."""
