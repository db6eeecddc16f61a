"""Descriptors out of the reach of a daemonizer: what blocks stands in a room of its own."""
