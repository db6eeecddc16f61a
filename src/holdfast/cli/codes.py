"""Exit statuses, mostly those of sysexits.h. Scripts depend on them, so they don't change."""

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
#: An unexpected error: a fault in holdfast.
SOFTWARE = 70
#: The output can't be written.
IO_ERROR = 74
#: Another client holds the lock, and the time-out has expired.
BUSY = 75
#: The lock was lost and the command was stopped, or the hold that a token names has ended.
LOST = 76
#: A URL, a file or an option of the store can't be used.
CONFIG = 78
#: The command that ``run`` starts can't be executed, or doesn't exist.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
#: A signal ended the command; the number of the signal is added.
SIGNALLED = 128


def explain(failure: Exception) -> int:
    """Print an error in one line; return the exit status of its type."""
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
            "Please report this, with the output under HOLDFAST_TRACEBACK=1"
        )
        return SOFTWARE
    say(str(failure))
    return code
