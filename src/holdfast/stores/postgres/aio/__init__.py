"""The port for one event loop. It uses the steps of ``blocking.wire`` for the calls of libpq."""
