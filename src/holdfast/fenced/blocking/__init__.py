"""The system calls of a fenced file, and nothing else: its lock, its sidecar, its data."""
