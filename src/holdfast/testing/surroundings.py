"""The environment of a process that a thread starts."""

from __future__ import annotations

import os


def surroundings(**more: str) -> dict[str, str]:
    """Return a copy of ``os.environ`` with ``more`` added.

    If another thread changes the environment during the copy, as pytest does between two tests, a
    plain copy raises an error. In that case this function copies the environment once more."""
    while True:
        try:
            return {**os.environ, **more}
        except (KeyError, RuntimeError):
            continue
