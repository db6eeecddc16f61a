"""Refresh guards tortured on a real store: see ``python -m holdfast.testing.guards.torture``."""
