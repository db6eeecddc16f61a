"""Connecting that takes longer than a verb may take. The blocking part is in ``blocking``."""
