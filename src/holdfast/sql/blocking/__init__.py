"""The row lock for threads; what blocks."""
