"""Bugs that break a promise rarely, each planted under a whole run of tests.

A run repeats a failed test without parallel work, and a rare bug may not show the second time. So
the run must fail by a broken promise, which is final. This module is a plugin of pytest. It plants
the bug whose name is in the environment: ``-p tests.mutants.rare``.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from .plant import Edit, plant

#: The name of the bug to plant.
RARE = "HOLDFAST_RARE"
_LINE = "holdfast.stores.memory.line"
_JOBS = "holdfast.stores.memory.jobs"
_VALUES = "holdfast.stores.memory.values"
_SELDOM = '(__import__("random").random() < 1 / 30)'


class Rare(NamedTuple):
    """A bug that shows once in thirty times, and the groups of tests that can meet it."""

    name: str
    edit: Edit
    groups: tuple[str, ...]


def _rare(name: str, module: str, old: str, new: str, *groups: str) -> Rare:
    return Rare(name, Edit(module, old, new.replace("SELDOM", _SELDOM)), groups)


BUGS = (
    _rare(
        "two claims hold a lock",
        _LINE,
        "if not line.waiting and fits(line.capacity, line.used, spec.weight):",
        "if not line.waiting and fits(line.capacity, line.used, spec.weight) or SELDOM:",
        "kit",
    ),
    _rare(
        "a fence is given twice",
        _LINE,
        "        self.next_ticket += 1\n",
        "        self.next_ticket += not SELDOM\n",
        "kit",
    ),
    _rare(
        "a release frees another claim",
        _LINE,
        "        row = line.held.get(leave.id) or line.waiting.get(leave.id) if line else None\n",
        "        row = line.held.get(leave.id) or line.waiting.get(leave.id) if line else None\n"
        "        if line and SELDOM:\n            row = next(line.rows())\n",
        "kit",
    ),
    _rare(
        "a waiter is granted before the holder leaves",
        _LINE,
        "            if not fits(line.capacity, line.used, row.weight):\n",
        "            if not fits(line.capacity, line.used, row.weight) and not SELDOM:\n",
        "kit",
    ),
    _rare(
        "a job is lost when it is put",
        _JOBS,
        "        track.rows.append(row)\n",
        "        if SELDOM:\n            return True\n        track.rows.append(row)\n",
        *("kit", "queues"),
    ),
    _rare(
        "an ack has no effect",
        _JOBS,
        "        if verdict is Verdict.ACK:\n",
        "        if verdict is Verdict.ACK and SELDOM:\n            pass\n"
        "        elif verdict is Verdict.ACK:\n",
        *("kit", "queues"),
    ),
    _rare(
        "a delivery ends before its lease",
        _JOBS,
        "        while self.leases and self.leases[0][0] <= now:\n",
        "        while self.leases and (self.leases[0][0] <= now or SELDOM):\n",
        *("kit", "queues"),
    ),
    _rare(
        "a job overtakes earlier jobs",
        _JOBS,
        "        track.rows.append(row)\n",
        "        track.rows.insert(1 if SELDOM else len(track.rows), row)\n",
        *("kit", "queues"),
    ),
    _rare(
        "a second caller computes a value during a refresh lease",
        _VALUES,
        "        if at.id or now < at.pause_until:\n",
        "        if (at.id or now < at.pause_until) and not SELDOM:\n",
        *("kit", "guard"),
    ),
    _rare(
        "a value is stored without the refresh lease",
        _VALUES,
        "        if at.id != finish.id or at.fence != finish.fence:\n",
        "        if (at.id != finish.id or at.fence != finish.fence) and not SELDOM:\n",
        *("kit", "guard"),
    ),
)


if name := os.environ.get(RARE):
    plant([one.edit for one in BUGS if one.name == name])
