"""A hold across commands, with `acquire` killed wherever it may be."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from holdfast import Client, NotHeld
from holdfast.cli.across.take import UNTOLD_S
from holdfast.testing.promise import promised
from tests.cli.world import ROOT, until
from tests.torture.scale import FULL, spread

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ptrace as Linux has it")
#: How soon a name is free that was acquired by a process that told nobody, seconds.
FREE_S = 10.0
#: `holdfast acquire`, with a mark before it asks for the lock and one when all is done.
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


def free(client: Client, name: str) -> bool:
    """Does nobody hold it?"""
    return not client.inspect(name, exact=True)


@pytest.mark.parametrize("several", [1, 2])
def test_an_acquire_that_is_killed_before_its_token_is_out_costs_seconds(
    tmp_path: Path, several: int
) -> None:
    from tests.torture.traced import run

    url = f"sqlite://{tmp_path}/locks.db"
    env = {"HOLDFAST_URL": url, "PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}

    def names(name: str) -> list[str]:
        return [f"{name}, {nth}" for nth in range(several)]

    def acquire(name: str, at: int) -> tuple[int, str]:
        """How many calls were seen, and what had been printed when it ended."""
        reader, writer = os.pipe()
        words = [sys.executable, "-c", MARKED, "acquire", "--all", *names(name), "--ttl", "1h"]
        calls = run(words, env, writer, at)
        os.close(writer)
        with os.fdopen(reader) as out:
            return calls, out.read()

    calls, text = acquire("whole", 0)
    assert text.endswith("\n")
    assert calls > 20
    with Client(url) as client:
        silent, told = [], []
        for at in itertools.count(1) if FULL else spread(range(1, calls + 1), 6):
            seen, text = acquire(f"killed {at}", at)
            if seen < at:  # it came to its end before
                break
            out = text.count("\n") == several
            for name in names(f"killed {at}"):
                (told if out else silent).append((name, time.monotonic()))
            for line in text.splitlines() if out else ():  # its caller could have used it
                with contextlib.suppress(NotHeld):  # on a machine that stood still for so long
                    client.adopt(line).release()
        print(f"{calls} calls; killed at {len(silent)} before the token was out, {len(told)} after")
        assert silent
        with promised(f"the name is free {FREE_S:g} s after the kill; it has {UNTOLD_S:g} s"):
            for name, killed in silent:
                left = killed + FREE_S - time.monotonic()
                until(partial(free, client, name), f"{name!r} is free", max(left, 1.0))
