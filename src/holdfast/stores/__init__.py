"""The stores, which keep lines of claims: one folder each, with the same file names."""
