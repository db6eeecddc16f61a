"""The log line of a client without a named store."""

from __future__ import annotations

import logging

log = logging.getLogger("holdfast")

_told = False


def tell(label: str) -> None:
    """Warn, once in a process, that the client uses a local file as its store."""
    global _told
    if not _told:
        _told = True
        log.warning(
            "no store is named (no URL, no $HOLDFAST_URL): using this user's local file, %s, which "
            "other hosts don't share. Set HOLDFAST_URL=sqlite:// to confirm this choice",
            label,
        )
