"""Timers that go by real time: what needs an event loop stands in a room of its own."""
