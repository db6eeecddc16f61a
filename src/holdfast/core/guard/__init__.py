"""The refresh guard: one caller recomputes a value, the others wait or take the old one."""
