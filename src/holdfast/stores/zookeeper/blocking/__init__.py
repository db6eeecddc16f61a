"""ZooKeeper for threads, and the driver, which works with its own threads on both faces."""
