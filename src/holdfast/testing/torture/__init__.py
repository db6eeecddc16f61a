"""Torture: processes that use your store while faults are injected, and a verdict on their actions.

``python -m holdfast.testing torture --store URL --seconds 60`` starts some processes, with threads
or with asyncio. They acquire locks, read-write locks and semaphores on a few names, write fenced
files while they hold a name, and record what they do. Meanwhile some processes are killed, stopped
for longer than their leases, forked or cancelled. Afterwards the run judges the histories and reads
the fenced files, and the store must be empty. Random numbers come from a seed, which is printed.
``--queues`` tortures serial queues, ``--guards`` refresh guards; see the modules ``.queues`` and
``.guards``.
"""

from __future__ import annotations

from .locks import Options, run
from .run import Outcome
from .trouble import Descriptors, Scene, Trouble

__all__ = ["Descriptors", "Options", "Outcome", "Scene", "Trouble", "run"]
