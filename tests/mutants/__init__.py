"""Planted bugs: a test or an invariant of the simulator must catch each."""
