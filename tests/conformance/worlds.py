"""A program that plays runs of the kit with replaced threads, sockets, clocks or event loops.

``python -m tests.conformance.worlds WORLD`` reads lines of JSON, ``[run, url]``. It writes a line
for each run that failed, ``[run, promise, text]``; ``promise`` is true if a promise was broken.
holdfast is imported after the environment is set up, as gevent and eventlet require.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable


def gevent() -> None:
    from gevent import monkey

    monkey.patch_all()


def eventlet() -> None:
    warnings.simplefilter("ignore")  # it is deprecated, and warns
    from eventlet import monkey_patch

    monkey_patch()


def uvloop() -> None:
    import asyncio

    from uvloop import EventLoopPolicy

    asyncio.set_event_loop_policy(EventLoopPolicy())


def freezegun() -> None:
    from freezegun import freeze_time

    # The kit's sleeps under asyncio need real time; holdfast doesn't.
    freeze_time("2031-05-01", real_asyncio=True).start()


def time_machine() -> None:
    from time_machine import travel

    travel("2031-05-01T00:00Z", tick=False).start()


#: For each environment: its setup, the face that is played, and the number of simultaneous runs.
WORLDS: dict[str, tuple[Callable[[], None], str, int]] = {
    "gevent": (gevent, "sync", 10),
    "asyncio in gevent": (gevent, "aio", 1),  # as it has one event loop for each thread
    "eventlet": (eventlet, "sync", 4),
    "uvloop": (uvloop, "aio", 10),
    "freezegun": (freezegun, "sync", 10),
    "asyncio in freezegun": (freezegun, "aio", 10),
    "time-machine": (time_machine, "sync", 10),
}


def main(world: str) -> None:
    enter, _, at_once = WORLDS[world]
    told, sys.stdout = sys.stdout, sys.stderr  # a case prints its seed
    enter()
    import threading
    import traceback
    from queue import Empty, Queue

    from holdfast.testing.conformance import runs
    from holdfast.testing.promise import PromiseBroken

    wanted: dict[str, str] = dict(map(json.loads, sys.stdin))
    known = {str(run): run for run in runs(*{one.partition("-")[0] for one in wanted})}
    rest: Queue[str] = Queue()
    for one in wanted:
        rest.put(one)

    def play() -> None:
        while True:
            try:
                run = rest.get_nowait()
            except Empty:
                return
            try:
                known[run].on(wanted[run])
            except BaseException as wrong:
                promise = isinstance(wrong, PromiseBroken)
                told.write(json.dumps([run, promise, traceback.format_exc()]) + "\n")

    if at_once == 1:
        play()
        return
    players = [threading.Thread(target=play) for _ in range(at_once)]
    for player in players:
        player.start()
    for player in players:
        player.join()


if __name__ == "__main__":
    main(sys.argv[1])
