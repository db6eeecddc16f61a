"""The system calls of a fenced file: for its lock, its sidecar and its data."""
