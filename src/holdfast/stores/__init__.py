"""Where lines of claims are kept: one folder each, with the same file names."""
