"""Run all tests in groups, a process each, and report which are broken and which only disturbed.

``groups`` defines the groups, and ``process`` runs one. In that process ``plugin`` records the
result of each test. ``verdicts`` collects the results and decides; ``__main__`` is the command.
"""
