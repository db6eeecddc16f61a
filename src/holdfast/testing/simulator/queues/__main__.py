"""``python -m holdfast.testing.simulator.queues [HISTORIES]``: histories of queues, judged."""

from __future__ import annotations

import sys

from ..__main__ import Kind, main
from . import check, run

QUEUES = Kind(" --queues", check, run)

if __name__ == "__main__":
    sys.exit(main(kind=QUEUES))
