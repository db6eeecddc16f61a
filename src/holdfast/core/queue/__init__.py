"""Serial queues: work that is accepted now and executed in order, one at a time per group."""
