"""``holdfast purge``: remove the rows of row locks that were not used for a long time."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from ..sql import purge as remove
from ..sql.blocking.opening import opened
from ..url import default_url
from .text import count


def purge(options: argparse.Namespace) -> int:
    """Remove the rows and print their number; return 0 after success."""
    with closing(opened(options.database or default_url())) as connection:
        gone = remove(
            connection,
            options.older_than,
            kind=options.kind,
            batch=options.batch,
            progress=None if options.quiet else _tell,
            table=options.table,
        )
    if not options.quiet:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        print(f"removed {count(gone, 'row')} of {options.table}")
    return 0


def _tell(gone: int) -> None:
    """Show the number of removed rows so far, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(
            f"\r\033[Kholdfast: {count(gone, 'row')} removed", end="", file=sys.stderr, flush=True
        )
