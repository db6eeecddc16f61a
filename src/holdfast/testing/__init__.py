"""Tools to test with holdfast, and to test holdfast itself; public, and kept as such.

For users' own tests: the pytest plugin (``plugin``: fixtures ``locks``, ``async_locks``,
``lock_clock``, ``lose``, ``contend``) and the clock that a test moves (``clock``).

For those who write a store: the ``conformance`` kit, which runs every case on every primitive and
both faces, and ``differential``, which compares a store's answers with those of the model.

Nothing here is imported by the rest of holdfast, and nothing here imports a store before a test
asks for it.
"""
