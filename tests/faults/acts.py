"""Functions that test subjects run in their own process."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading

from holdfast.testing.faults.stage import Stage


def echo(stage: Stage, start: str) -> None:
    """Send a first word, then send back each message that arrives; print some text as well."""
    print("this is no answer")
    stage.say(start)
    while (told := stage.hear()) is not None:
        stage.say(["heard", told])


def count(stage: Stage) -> None:
    number = 0
    while True:
        number += 1
        stage.say(number)


def stops_itself(stage: Stage) -> None:
    """Stop this process, and send a message when it is continued."""
    os.kill(os.getpid(), signal.SIGSTOP)
    stage.say("on again")


def waits_for_interrupt(stage: Stage) -> None:
    """Send a message when Ctrl-C has raised KeyboardInterrupt."""
    try:
        stage.say("ready")
        signal.pause()
    except KeyboardInterrupt:
        stage.say("interrupted")


def knows(stage: Stage, module: str) -> None:
    stage.say(module in sys.modules)


def tells_all(stage: Stage) -> None:
    """Report the state that a program finds when it starts."""
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
    """End in the way that ``how`` names, and send a message at the exit."""
    atexit.register(stage.say, "at exit")
    if how == "raises":
        raise ValueError("planted")
    if how == "waits":
        stage.say("waits")
        stage.hear()
    sys.exit(int(how))
