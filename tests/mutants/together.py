"""Bugs in the acquire and the release of several names by ``all()``."""

from __future__ import annotations

from .table import LINE, TOGETHER, bug

AT_ONCE = [
    bug(
        "all() grants some claims though one name is busy",
        "no leak|bounded waiting",
        (
            LINE,
            (
                "            if line is not None:\n"
                "                return None, pokes\n"
                "        held = []\n"
            ),
            (
                "            if line is not None:\n"
                "                return None, pokes\n"
                "            line = self.lines[claim.spec.name] = Line(\n"
                "                claim.spec.kind, claim.spec.capacity\n"
                "            )\n"
                "            self._enter(line, claim, now, True, None)\n"
                "        held = []\n"
            ),
        ),
    ),
    bug(
        "the leases of all() start at the reply",
        "local honesty|exclusion",
        (
            TOGETHER,
            "        sent = attempt.asked\n",
            "        sent = ctx.now()\n",
        ),
        near=587,
    ),
    bug(
        "the undo of all() forgets one of the claims",
        "no leak|bounded waiting",
        (
            TOGETHER,
            "await _undo(ctx, _leaves(wanted), ",
            "await _undo(ctx, _leaves(wanted)[1:], ",
        ),
        near=2585,
    ),
    bug(
        "all() forgets a request without a reply and continues one by one",
        "no leak|bounded waiting|no false negative",
        (
            TOGETHER,
            "        await _clear(attempt, wanted, failure)\n",
            "        del failure\n",
        ),
        near=454,
    ),
]
