"""A process that holds two locks while its threads wait for one of them: see `test_starving`.

Its arguments are a URL, the number of waiting threads, the lease, the seconds of waiting, and the
limit of descriptors (0: the usual limit). At its end it prints its counts as JSON.
"""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import sys
import threading
import time
from collections import Counter

from holdfast import Client, HoldfastError, LockLost, StoreUnavailable

#: The stack size of a waiting thread, and the time in which all must be granted at the end.
STACK, DRAIN_S = 256 * 1024, 60.0


def main(url: str, threads: int, ttl: float, seconds: float, descriptors: int) -> Counter[str]:
    logging.basicConfig(level=logging.CRITICAL)
    if descriptors:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    threading.stack_size(STACK)
    client = Client(url)
    came: Counter[str] = Counter()

    def wait() -> None:
        end = time.monotonic() + seconds + DRAIN_S
        while time.monotonic() < end:
            try:
                with client.lock("wanted", timeout=end - time.monotonic(), ttl=30):
                    came["served"] += 1
                    return
            except StoreUnavailable:
                came["unavailable"] += 1
                time.sleep(0.2)

    with client.lock("kept", ttl=ttl) as kept:
        wanted = client.lock("wanted", ttl=ttl).acquire()
        crowd = [threading.Thread(target=wait, daemon=True) for _ in range(threads)]
        for one in crowd:
            one.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)
        with contextlib.suppress(HoldfastError, IndexError):  # no claim holds or waits
            came["waiting"] = len(client.inspect("wanted", exact=True)[0].waiters)
        for hold in (kept, wanted):
            try:
                hold.check()
            except LockLost:
                came["lost"] += 1
        with contextlib.suppress(HoldfastError):
            wanted.release()
        for one in crowd:
            one.join(DRAIN_S)
    client.close()
    return came


if __name__ == "__main__":
    *_, text_url, crowd_size, lease, length, limit = sys.argv
    print(json.dumps(main(text_url, int(crowd_size), float(lease), float(length), int(limit))))
