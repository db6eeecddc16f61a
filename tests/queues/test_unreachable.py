"""A store at whose address no server listens."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.core.queue import queue as core
from tests.cli.world import ROOT, until

#: No server listens on this port.
URL = "redis://127.0.0.1:1"


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_a_put_with_refused_connections_reports_that_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    monkeypatch.setattr(core, "PUT_S", 0.3)

    async def put() -> None:
        async with AsyncClient(URL) as client:
            await client.queue("q").put("x")

    def put_by_thread() -> None:
        with Client(URL) as client:
            client.queue("q").put("x")

    with pytest.raises(StoreUnavailable, match="nothing was sent") as told:
        asyncio.run(put()) if face == "asyncio" else put_by_thread()
    assert "127.0.0.1:1" in str(told.value)
    assert "is unknown" not in str(told.value)


@pytest.mark.parametrize("more", [(), ("--drain", "-q")])
def test_a_worker_reports_an_unreachable_store_after_a_second(
    more: tuple[str, ...],
) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "queue", "work", "--url", URL, *more, "q", "--", "cat"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
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
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", FAILS], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "ZeroDivisionError" in done.stderr
