"""Descriptors out of the reach of a daemonizer. The blocking part is in ``blocking``."""
