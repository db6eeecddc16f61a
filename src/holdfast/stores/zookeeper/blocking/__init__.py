"""ZooKeeper for threads, and the driver, which uses its own threads for both faces."""
