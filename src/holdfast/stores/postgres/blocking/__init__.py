"""The port for threads, and the calls of libpq for threads and event loops."""
