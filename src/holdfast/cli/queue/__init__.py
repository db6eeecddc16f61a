"""``holdfast queue``: serial queues from the shell. A verb's module is imported at its call."""

from __future__ import annotations

import argparse


def queue(options: argparse.Namespace) -> int:
    """Run the verb and return the exit status."""
    if options.verb == "put":
        from .put import put as call
    elif options.verb == "work":
        from .work import work as call
    elif options.verb == "retry":
        from .mend import retry as call
    elif options.verb == "purge":
        from .mend import purge as call
    elif options.verb == "dead":
        from .look import dead as call
    elif options.verb == "show":
        from .look import show as call
    else:
        from .look import ls as call
    return call(options)
