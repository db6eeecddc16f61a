"""A hold across commands, with `acquire` killed at each of its system calls."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections import deque
from pathlib import Path

import pytest

from holdfast import Client, NotHeld
from holdfast.cli.across.take import UNTOLD_S
from holdfast.testing.promise import promised
from tests.cli.world import ROOT, until
from tests.torture.scale import FULL, spread

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ptrace as Linux has it")
#: Maximum seconds until a name is free that a killed `acquire` held, before it printed the token.
FREE_S = 10.0
#: `holdfast acquire`, with a mark before it requests the lock and a mark at its end.
MARKED = """
import os, signal, sys
from holdfast.cli import main
from holdfast.cli.across import take
acquire, hand_out = take._acquire, take._hand_out
def mark(call, *given):
    os.kill(os.getpid(), signal.SIGURG)
    return call(*given)
take._acquire = lambda *given: mark(acquire, *given)
take._hand_out = lambda *given: (hand_out(*given), mark(str))
sys.exit(main())
"""


def free(client: Client, by: float) -> None:
    """Check that nothing is held in this store, at the time ``by`` at the latest."""
    with client, promised(f"what it had is free {FREE_S:g} s after the kill; it has {UNTOLD_S:g}"):
        until(lambda: not client.inspect(), "all is free", max(by - time.monotonic(), 1.0))


@pytest.mark.parametrize("several", [1, 2])
def test_an_acquire_that_is_killed_before_its_token_is_out_costs_seconds(
    tmp_path: Path, several: int
) -> None:
    from tests.torture.traced import run

    names = [f"name {nth}" for nth in range(several)]
    words = [sys.executable, "-c", MARKED, "acquire", "--all", *names, "--ttl", "1h"]
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}

    def acquire(at: int) -> tuple[int, str, Client]:
        """Return the number of calls seen, the output, and a client of the store. Each run has a
        separate store, because a store in which other processes died makes more calls."""
        url = f"sqlite://{tmp_path}/{at}.db"
        client = Client(url)
        client.lock("warm").acquire().release()
        reader, writer = os.pipe()
        calls = run(words, {**env, "HOLDFAST_URL": url}, writer, at)
        os.close(writer)
        with os.fdopen(reader) as out:
            return calls, out.read(), client

    calls, text, client = acquire(0)
    client.close()
    assert text.endswith("\n")
    assert calls > 20
    silent: deque[tuple[Client, float]] = deque()
    before = after = 0
    for at in itertools.count(1) if FULL else spread(range(1, calls + 1), 6):
        seen, text, client = acquire(at)
        if out := text.count("\n") == several:  # its caller could have used it
            for line in text.splitlines():
                with contextlib.suppress(NotHeld):  # on a machine that stood still for so long
                    client.adopt(line).release()
            client.close()
        else:
            silent.append((client, time.monotonic() + FREE_S))
        before, after = before + (not out), after + out
        while silent and silent[0][1] < time.monotonic():
            free(*silent.popleft())
        if seen < at:  # it came to its end before
            break
    print(f"{calls} calls; killed at {before} before the token was out, at {after} after")
    assert before
    while silent:
        free(*silent.popleft())
