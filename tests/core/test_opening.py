"""Threads that make their first clients at the same moment."""

from __future__ import annotations

import subprocess
import sys

ROUNDS = 10
#: Without `holdfast.runtime.blocking.opening` about one round in three ended in an error.
BOTH_AT_ONCE = """
import sys, threading
import holdfast
sys.setswitchinterval(1e-5)
both, wrong = threading.Barrier(2), []
def make(kind, url):
    both.wait()
    try:
        kind(url)
    except BaseException as why:
        wrong.append(why)
pair = ((holdfast.Client, "redis+plain://127.0.0.1"), (holdfast.AsyncClient, "redis://127.0.0.1"))
threads = [threading.Thread(target=make, args=one) for one in pair]
for one in threads: one.start()
for one in threads: one.join()
sys.exit(repr(wrong) if wrong else 0)
"""


def test_two_threads_may_open_their_first_stores_at_once() -> None:
    for _ in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-c", BOTH_AT_ONCE], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
