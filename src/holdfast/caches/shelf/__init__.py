"""Mappings as caches. Their lock stands in ``blocking``."""
