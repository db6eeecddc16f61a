"""Runs all tests in groups, a process each, and says what was broken and what was only disturbed.

``groups`` says which tests are a group, ``process`` runs one, ``plugin`` writes down in it what
becomes of each test, ``verdicts`` gathers that and decides, ``__main__`` is the command.
"""
