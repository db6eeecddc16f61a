"""``holdfast wait``: wait until a name is free, without acquiring it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

from ...runtime.blocking import boottime
from ...sync import Client
from .. import origin
from ..text import say
from ..waiting import SAY_AFTER_S, Waiting

#: The first and the maximum pause between two polls, in seconds. The pause doubles each time.
PAUSE_S, PAUSE_S_MAX = 0.02, 0.5


def wait(options: argparse.Namespace) -> int:
    """Poll the name until it is free; return the exit status."""
    with Client(options.url) as client:
        origin.tell(options, client.url)
        waiting = Waiting(client, options, [options.name])
        for pause in pauses(options, waiting.tell):
            lines = client.inspect(options.name, exact=True)
            if not lines or not lines[0].holders:
                return 0
            time.sleep(pause)
        if not options.quiet:
            say(waiting.busy())
    return int(options.busy)


def pauses(options: argparse.Namespace, tell: Callable[[], None]) -> Iterator[float]:
    """Yield the seconds to sleep after each poll, until the time-out; the last value is 0.

    After ``SAY_AFTER_S`` seconds, ``tell`` is called once, unless the option ``quiet`` is set.
    """
    begun, pause, told = boottime(), PAUSE_S, options.quiet
    most = 0.0 if options.nonblock else options.wait
    while True:
        waited = boottime() - begun
        if waited >= SAY_AFTER_S and not told:
            tell()
            told = True
        if most is not None and waited >= most:
            yield 0.0
            return
        yield pause if most is None else min(pause, most - waited)
        pause = min(2 * pause, PAUSE_S_MAX)
