"""The cases, by subject.

Each is a coroutine function over an ``Arena``; ``registry.case`` says what it is about. Their names
are the sentences that must be true.
"""
