"""Bugs after the first lease, between the claims of one line, and in the clock of the store."""

from __future__ import annotations

from .table import CLAIMS, KEEPER, LEASE, LINE, SERVER, TOGETHER, bug

AFTERWARDS = [
    bug(
        "extend leaves the interval of the renewals unchanged",
        "keep-alive",
        (KEEPER, "            lease.every = renew_every(lease.longest(sent))\n", ""),
    ),
    bug(
        "a hold that is extended to less is trusted for as long as before",
        "exclusion|local honesty",
        (
            LEASE,
            "        self.deadline = min(self.deadline, deadline(sent, length))\n",
            "",
        ),
    ),
    bug(
        "an older renewal counts after an extension to less",
        "exclusion|local honesty",
        (LEASE, "            if sent < one.until:\n", "            if False:\n"),
    ),
    bug(
        "a renewer that is cancelled during a renewal forgets what it renews",
        "keep-alive",
        (
            KEEPER,
            "            self._schedule.add_own(lease, self._ctx.now())\n",
            "            pass\n",
        ),
    ),
    bug(
        "a close during a renewal leaves the name occupied",
        "no leak",
        (KEEPER, "self._schedule.empty() + self._asked\n", "self._schedule.empty()\n"),
    ),
    bug(
        "the rest of a lease after a repeated join counts as the whole lease",
        "keep-alive",
        (CLAIMS, "        elif left < lease.ttl * WHOLE_PART:", "        elif False:"),
    ),
    bug(
        "all() compares the last of its deadlines",
        "local honesty",
        (
            TOGETHER,
            "if ctx.now() >= min(ends):",
            "if ctx.now() >= max(ends):",
        ),
        (
            TOGETHER,
            "if ctx.now() < min([lease.deadline for lease in leases])",
            "if ctx.now() < max([lease.deadline for lease in leases])",
        ),
    ),
    bug(
        "a repeated release of all() counts after the deadline",
        "no false answer",
        (TOGETHER, "there or (again and ctx.now() < lease.deadline)", "there or again"),
    ),
    bug(
        "an undo is given up before a late join arrives",
        "no leak",
        (KEEPER, "        until += TOMB_S if leave.suspect else 0.0\n", ""),
    ),
    bug(
        "the renewal of a waiter extends the lease of the holder",
        "ownership",
        (
            LINE,
            "            row.expires = now + self.patience\n            row.address",
            (
                "            row.expires = now + self.patience\n"
                "            for one in line.held.values():\n"
                "                one.expires = max(one.expires, now + one.ttl)\n"
                "            row.address"
            ),
        ),
    ),
    bug(
        "a waiter that gives up also ends the hold",
        "ownership",
        (
            LINE,
            "        self._drop(line, row)\n        return alive",
            (
                "        for one in () if row.held else list(line.held.values()):\n"
                "            self._drop(line, one)\n"
                "        self._drop(line, row)\n"
                "        return alive"
            ),
        ),
    ),
    bug(
        "a new waiter cuts the holder's lease to its own",
        "ownership",
        (
            LINE,
            "            row.address = address if address is not None else row.address\n",
            (
                "            row.address = address if address is not None else row.address\n"
                "            for one in line.held.values():\n"
                "                one.expires = min(one.expires, row.expires)\n"
            ),
        ),
    ),
    bug(
        "leases outlast a clock that is set back",
        "bounded waiting|no leak|exclusion|no false negative",
        (SERVER, "        if delta < 0:\n", "        if False:\n"),
    ),
    bug(
        "fences fall with a clock that is set back",
        "fence order",
        (
            SERVER,
            "        lines.next_ticket = max(lines.next_ticket, int(now * 1e6))\n",
            "        lines.next_ticket = int(now * 1e6)\n",
        ),
    ),
    bug(
        "a clock that is set back cuts every lease to the waiter TTL",
        "local honesty|exclusion",
        (SERVER, "longest = max(row.ttl, self.lines.patience)", "longest = self.lines.patience"),
    ),
]
