"""The server kit: proofs for a store whose data is on a server, with faults on its connections.

The conformance kit checks what a store answers. This kit checks what it answers when a request or
its reply is lost, cut off, or late, and when its server is away or silent. The author of
a store describes one server as a :class:`Bench`::

    @pytest.fixture
    def bench():
        return Bench(
            url=lambda host, port: f"mystore://user:secret@{host}:{port}/tests",
            host="127.0.0.1",
            port=server.port,
            verbs={"join": b"JOIN", "leave": b"LEAVE", "renew": b"RENEW"},
            secret="secret",
        )

    @pytest.mark.parametrize("run", server.runs(), ids=str)
    def test_on_a_server(run, bench):
        run.on(bench)

``docs/testing.md`` shows the faults and the checks.
"""

from __future__ import annotations

from .bench import Bench
from .kit import Run, runs

__all__ = ["Bench", "Run", "runs"]
