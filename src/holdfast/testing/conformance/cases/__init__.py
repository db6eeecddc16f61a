"""The cases, by subject.

Each case is a coroutine function that gets an ``Arena``; the decorator ``registry.case`` names the
primitives that it runs on. The name of the function is a sentence that must be true.
"""
