"""Text files that come with holdfast: what a server is told to make its tables and functions."""

from __future__ import annotations

import errno
from importlib.resources import files

from ..errors import StoreUnavailable

#: Errors of the system that mean that too many files are open.
SCARCE = frozenset({errno.EMFILE, errno.ENFILE})


def text(package: str, *path: str) -> str:
    """The text of this file of a package; ``StoreUnavailable`` if no file can be opened now."""
    try:
        return files(package).joinpath(*path).read_text(encoding="utf-8")
    except OSError as wrong:
        if wrong.errno not in SCARCE:
            raise
        raise StoreUnavailable(
            f"no file can be opened, so {'/'.join(path)} of holdfast can't be read ({wrong}): "
            "close some, or raise the limit (ulimit -n)"
        ) from wrong
