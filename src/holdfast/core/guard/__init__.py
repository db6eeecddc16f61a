"""The refresh guard: one caller recomputes a value, the others wait or get the old one."""
