"""Timers that use real time. The part that needs an event loop is in ``aio``."""
