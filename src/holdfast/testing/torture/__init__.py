"""Torture: processes that use your store and are struck, and a judgement over what they did.

``python -m holdfast.testing torture --store URL --seconds 60`` starts some processes of both faces
that take locks, read-write locks and semaphores on a few names, write under them through fences,
and write down what they do. Meanwhile others are killed, stopped for longer than their leases,
forked and cancelled. Afterwards their histories are judged, the guarded files are read, and the
store must be empty. The numbers come from a seed, which is printed. ``--queues`` does it to serial
queues, ``--guards`` to refresh guards; see ``holdfast.testing.torture.queues`` and ``.guards``.
"""

from __future__ import annotations

from .locks import Options, run
from .run import Outcome
from .trouble import Descriptors, Scene, Trouble

__all__ = ["Descriptors", "Options", "Outcome", "Scene", "Trouble", "run"]
