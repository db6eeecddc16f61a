"""The layout of a store's state: a number that a release raises if earlier ones can't share it."""

from __future__ import annotations

from ..errors import ConfigError


def newer(store: str, found: int | str, known: int) -> ConfigError:
    """Return the error for a store whose layout is of a later release than this one."""
    return ConfigError(
        f"{store} has layout {found}, made by a later release of holdfast; this release knows "
        f"layout {known}, and changes nothing there: upgrade holdfast in this process"
    )
