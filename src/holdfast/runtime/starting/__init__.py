"""The start of a thread with a time limit. The blocking part is in ``blocking``."""
