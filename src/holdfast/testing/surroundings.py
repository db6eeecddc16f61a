"""The environment of a process that a thread starts."""

from __future__ import annotations

import os


def surroundings(**more: str) -> dict[str, str]:
    """A copy of ``os.environ``, and ``more``. Another thread may change it during the copy, as
    pytest does between two tests; a plain copy then raises ``KeyError``."""
    while True:
        try:
            return {**os.environ, **more}
        except (KeyError, RuntimeError):
            continue
