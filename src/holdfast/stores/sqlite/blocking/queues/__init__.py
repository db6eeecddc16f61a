"""Serial queues in a separate database; see docs/decisions/0011-embedded-queues.md."""
