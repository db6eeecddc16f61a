"""The cases, by subject.

Each is a coroutine function of an ``Arena``; ``registry.case`` names its subject. The names of the
functions are the sentences that must be true.
"""
