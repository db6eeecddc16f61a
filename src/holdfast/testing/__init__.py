"""Tools to test with holdfast, and to test holdfast itself; these are part of the public API.

For users' own tests: the pytest plugin (``plugin``: fixtures ``locks``, ``async_locks``,
``lock_clock``, ``lose``, ``contend``) and the clock that a test moves (``clock``).

For authors of a store: the ``conformance`` kit, which runs every case on every primitive, for
threads and for asyncio, and ``differential``, which compares a store's answers with those of the
model.

The rest of holdfast imports nothing from this package, and no module of this package imports a
store before a test asks for that store.
"""
