"""The row lock for threads: the parts that block."""
