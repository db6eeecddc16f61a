"""The owner that others see: host, process, label."""

from __future__ import annotations

import os
import sys

from ..core.model import OWNER_BYTES_MAX


def hostname() -> str:
    """Return the name of this machine, at most 63 characters."""
    if sys.platform != "win32" and hasattr(os, "uname"):
        return os.uname().nodename[:63] or "localhost"
    return os.environ.get("COMPUTERNAME", "")[:63] or "localhost"


class Owner:
    """Makes the owner ``host:pid:label``. Call it again after a fork, which changes the pid."""

    __slots__ = ("label",)

    def __init__(self, label: str | None = None) -> None:
        program = os.path.basename(sys.argv[0]) if sys.argv else ""
        self.label = label if label is not None else program or "python"

    def __call__(self) -> str:
        """Return the owner for this process."""
        head = f"{hostname()}:{os.getpid()}:"
        room = OWNER_BYTES_MAX - len(head.encode())
        return head + self.label.encode()[:room].decode(errors="ignore")
