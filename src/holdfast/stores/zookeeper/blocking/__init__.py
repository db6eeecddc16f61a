"""ZooKeeper for threads, and the driver, which works with threads of its own on both faces."""
