"""Reading of holdfast's text files: the statements that make tables and functions on a server."""

from __future__ import annotations

import errno
from importlib.resources import files

from ..errors import StoreUnavailable

#: Errors of the operating system for too many open files.
SCARCE = frozenset({errno.EMFILE, errno.ENFILE})


def text(package: str, *path: str) -> str:
    """Return the text of a file in a package; ``StoreUnavailable`` if no file can be opened now."""
    try:
        return files(package).joinpath(*path).read_text(encoding="utf-8")
    except OSError as wrong:
        if wrong.errno not in SCARCE:
            raise
        raise StoreUnavailable(
            f"no file can be opened, so {'/'.join(path)} of holdfast can't be read ({wrong}): "
            "close some, or raise the limit (ulimit -n)"
        ) from wrong
