"""What the subjects of these tests do."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading

from holdfast.testing.faults.stage import Stage


def echo(stage: Stage, start: str) -> None:
    """Say what we are told, after a first word; print a little as well."""
    print("this is no answer")
    stage.say(start)
    while (told := stage.hear()) is not None:
        stage.say(["heard", told])


async def echo_later(stage: Stage) -> None:
    """The same, under asyncio."""
    while (told := await asyncio.to_thread(stage.hear)) is not None:
        stage.say(told)


def count(stage: Stage) -> None:
    """Count as fast as we can, and say every number."""
    number = 0
    while True:
        number += 1
        stage.say(number)


def stops_itself(stage: Stage) -> None:
    """Stop, and say so when continued."""
    os.kill(os.getpid(), signal.SIGSTOP)
    stage.say("on again")


def waits_for_interrupt(stage: Stage) -> None:
    """Say what Ctrl-C raised."""
    try:
        stage.say("ready")
        signal.pause()
    except KeyboardInterrupt:
        stage.say("interrupted")


def knows(stage: Stage, module: str) -> None:
    """Say whether a module was imported before us."""
    stage.say(module in sys.modules)


def fails(stage: Stage) -> None:
    """Raise."""
    raise ValueError("on purpose")


def tells_all(stage: Stage) -> None:
    """Say what a program finds at its start."""
    caught = {one: str(signal.getsignal(one)) for one in signal.valid_signals()}
    stage.say(
        {
            "argv": sys.argv[1:],
            "cwd": os.getcwd(),
            "environment": {**os.environ},
            "path": [one for one in sys.path if one],
            "descriptors": len(os.listdir("/proc/self/fd")),
            "signals": {str(one): how for one, how in caught.items() if " at 0x" not in how},
            "masked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "threads": threading.active_count(),
        }
    )


def exits(stage: Stage, how: str) -> None:
    """End as it is told, and say so at the exit."""
    atexit.register(stage.say, "at exit")
    if how == "raises":
        raise ValueError("planted")
    if how == "waits":
        stage.say("waits")
        stage.hear()
    sys.exit(int(how))
