"""Exit statuses, after sysexits.h. They are part of the interface."""

from __future__ import annotations

import os

from ..errors import ConfigError, LockLost, NotHeld, NotSupported, StoreUnavailable
from .text import say

#: The command line is invalid.
USAGE = 64
#: The input can't be read: jobs, or a token.
DATA = 65
#: The store did not answer.
UNREACHABLE = 69
#: Something that should never happen.
SOFTWARE = 70
#: Our output could not be written.
IO_ERROR = 74
#: Another client holds the lock, and the time to wait has ended.
BUSY = 75
#: The lock is no longer held: it was lost, and the command stopped; or its token has ended.
LOST = 76
#: A URL, a file or an option of the store can't be used.
CONFIG = 78
#: The command can't be executed, or isn't there.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
#: Plus the number of the signal that ended the command.
SIGNALLED = 128


def explain(failure: Exception) -> int:
    """Print in one line what went wrong; return the exit status for it."""
    if os.environ.get("HOLDFAST_TRACEBACK"):
        import traceback

        traceback.print_exception(failure)
    if isinstance(failure, StoreUnavailable):
        code = UNREACHABLE
    elif isinstance(failure, (ConfigError, NotSupported)):
        code = CONFIG
    elif isinstance(failure, (LockLost, NotHeld)):
        code = LOST
    elif isinstance(failure, OSError):
        code = IO_ERROR
    else:
        say(
            f"unexpected {type(failure).__name__}: {failure}. "
            "Please report this, with what HOLDFAST_TRACEBACK=1 shows"
        )
        return SOFTWARE
    say(str(failure))
    return code
