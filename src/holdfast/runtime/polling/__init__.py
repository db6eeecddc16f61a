"""Waiting for descriptors, where the system has no ``select.poll``."""
