"""Resources that a long-lived process keeps.

One process takes holds with callbacks, holds with a different ttl each, and clients that are
abandoned while they hold. It reports its use before and after: objects of Python's allocator,
resident KiB, threads and descriptors.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from uuid import uuid4

from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults.stage import Stage

#: Allowed rest of each resource. The heap doesn't shrink below its peak, so the KiB can't fall to
#: the first value.
REST = {"objects": 0.02, "kib": 8192, "threads": 0, "fds": 1}
#: Number of abandoned clients. The warm-up abandons them too, because the C heap keeps its peak
#: size.
CLIENTS = 60
#: Seconds of the lease that an abandoned client leaves in the store.
LEFT_S = 5.0


class Now:
    """The resources that the process uses at this moment."""

    def __init__(self) -> None:
        gc.collect()
        self.objects = sys.getallocatedblocks()
        self.kib = int(Path("/proc/self/statm").read_text().split()[1]) * 4
        self.threads = threading.active_count()
        self.fds = len(os.listdir("/proc/self/fd"))

    def back(self, start: Now) -> bool:
        """Return True if the use is as at the start, except for the allowed rest."""
        then, now = vars(start), vars(self)
        rest = REST | {"objects": REST["objects"] * start.objects}
        return all(now[what] <= then[what] + more for what, more in rest.items())


async def play(face: Face, url: str, client: object, holds: int) -> None:
    """Acquire and release, and abandon clients that hold."""
    for number in range(holds):
        options = {"auto_renew": False, "on_lost": lambda *what, number=number: None}
        lock = client.lock(f"a-{number % 64}", ttl=600.0, **options)  # type: ignore[attr-defined]
        await (await lock.acquire()).release()
        ttl = 600.0 + number * 0.001
        other = client.lock(f"b-{number % 64}", ttl=ttl)  # type: ignore[attr-defined]
        await (await other.acquire()).release()
        await face.sleep(0)  # a store that never blocks would let nothing else run
    for _ in range(CLIENTS):
        forgotten = await face.client(url).lock(f"c-{uuid4()}", ttl=LEFT_S).acquire()
        del forgotten


async def measured(face: Face, url: str, holds: int, within: float) -> dict[str, object]:
    """Return the use before and after a load, and the seconds until the second was as the first.

    The client of the load stays open, so what it keeps counts.
    """
    first, client = Now(), face.client(url)
    await play(face, url, client, max(100, holds // 20))  # what is made once is there
    end = time.monotonic() + within
    while (start := Now()).threads > first.threads and time.monotonic() < end:
        await face.sleep(0.1)
    begun = time.monotonic()
    await play(face, url, client, holds)
    ended = time.monotonic()
    while not (now := Now()).back(start) and time.monotonic() < ended + within:
        await face.sleep(0.1)
    return {
        "holds": holds,
        "seconds": round(ended - begun, 1),
        "back": now.back(start),
        "back_after_s": round(time.monotonic() - ended, 1),
        "before": vars(start),
        "after": vars(now),
    }


def measures(stage: Stage, url: str, face: str, holds: int, within: float) -> None:
    warnings.simplefilter("ignore", ResourceWarning)  # of the abandoned ones, as it should be
    one = FACES[face]
    stage.say(one.run(lambda: measured(one, url, holds, within), 3600.0))
