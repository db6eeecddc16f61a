"""Redis for threads: connections made by redis-py, each held by one thread at a time."""
