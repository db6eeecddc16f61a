"""Planted bugs: each must be caught, by the invariant that is made for it."""
