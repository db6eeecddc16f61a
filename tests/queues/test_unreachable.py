"""A store at whose address no server listens."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdfast import StoreUnavailable
from holdfast.core.queue import queue as core
from holdfast.testing.faces import FACES, Face
from tests.cli.world import ROOT, until

#: No server listens on this port.
URL = "redis://127.0.0.1:1"
ENV = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_put_with_refused_connections_reports_that_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch, face: Face
) -> None:
    async def put() -> None:
        async with face.client(URL) as client:
            await client.queue("q").put("x")

    monkeypatch.setattr(core, "PUT_S", 0.3)
    with pytest.raises(StoreUnavailable, match="nothing was sent") as told:
        face.run(put, 60.0)
    assert "127.0.0.1:1" in str(told.value)
    assert "is unknown" not in str(told.value)


@pytest.mark.parametrize("more", [(), ("--drain", "-q")])
def test_a_worker_reports_an_unreachable_store_after_a_second(more: tuple[str, ...]) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "queue", "work", "--url", URL, *more, "q", "--", "cat"],
        env=ENV,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stderr is not None
        said = worker.stderr.readline()
        assert said.startswith("holdfast: ")
        assert "127.0.0.1:1" in said
        assert said.endswith("; waiting\n")
    finally:
        worker.terminate()
        until(lambda: worker.poll() is not None, "it ends")
        _, rest = worker.communicate()
    assert "waiting" not in rest  # again only after a minute


FAILS = """
from holdfast import Client
with Client("memory://") as client:
    queue = client.queue("q", max_attempts=1)
    queue.put("x")
    queue.worker(lambda job: 1 / 0, drain=True).run()
"""


def test_a_program_that_has_not_configured_logging_sees_why_a_handler_failed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILS], env=ENV, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "ZeroDivisionError" in done.stderr
