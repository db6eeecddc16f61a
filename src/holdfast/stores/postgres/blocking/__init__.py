"""The port for threads, and what both kinds of runtime say to libpq."""
