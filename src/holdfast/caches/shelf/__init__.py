"""Mappings as caches. Their lock is in ``blocking``."""
