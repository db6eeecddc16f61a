"""The port for threads, over PyMySQL."""
