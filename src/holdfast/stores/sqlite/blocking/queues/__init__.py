"""Serial queues in a database of their own; see docs/decisions/0011-embedded-queues.md."""
