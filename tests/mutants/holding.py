"""Bugs that show while a hold lasts, and at its end."""

from __future__ import annotations

from .table import ADOPT, ASKING, CLAIMS, HOLD, KEEPER, LEASE, LINE, POLICY, RWLOCK, SERVER, bug

HOLDING = [
    bug(
        "the writer's rights last until the downgrade is answered",
        "exclusion",
        (
            HOLD,
            (
                "        lease.weight = 1  # now: the store may grant a reader before its answer arrives here\n"
                "        await self._renew(lease.renewal(self._ctx.now()))\n"
            ),
            (
                "        await self._renew(lease.renewal(self._ctx.now())._replace(weight=1))\n"
                "        lease.weight = 1\n"
            ),
        ),
    ),
    bug(
        "adopt does not exchange the id",
        "exclusion|ownership|local honesty",
        (LINE, "        if fresh:\n", "        if False:\n"),
        (ADOPT, "fresh = claim._replace(id=ctx.runtime.new_id())", "fresh = claim"),
        near=97,
    ),
    bug(
        "fences come from a plain counter after data loss",
        "fence order",
        (
            SERVER,
            "        lines.next_ticket = max(lines.next_ticket, int(now * 1e6))\n",
            "",
        ),
    ),
    bug(
        "data loss starts no grace period",
        "exclusion",
        (
            SERVER,
            "            self.grace_until = self.now() + self.ttl_max + 1.0\n",
            "",
        ),
    ),
    bug(
        "deadlines have no margin for clocks of different rates",
        "local honesty|exclusion",
        (
            POLICY,
            "    return sent + lease - lease * RATE_ERROR - MARGIN_S\n",
            "    return sent + lease\n",
        ),
    ),
    bug(
        "a late reply restores a lost hold",
        "no resurrection|local honesty",
        (
            LEASE,
            "        if self.reason is not None:\n            return False\n",
            "        self.reason = None\n",
        ),
        near=9590,
    ),
    bug(
        "release does not mark the hold as closing",
        "no false loss|keep-alive",
        (
            HOLD,
            "                    lease.closing = True\n",
            "",
        ),
    ),
    bug(
        "an acquire that times out stays in the line",
        "no leak|no false negative|bounded waiting",
        (
            CLAIMS,
            "            await ctx.store.leave(leave, within)\n",
            "            pass\n",
        ),
    ),
    bug(
        "a forked child counts its parent's holds as its own",
        "ownership",
        (
            HOLD,
            "            if self._epoch != self._ctx.epoch:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "a forked child releases its parent's holds",
        "local honesty|exclusion",
        (
            HOLD,
            "        if lease.reason is Loss.FORKED:\n"
            "            lease.closing, lease.end = True, State.LOST\n"
            "        return lease.reason is Loss.FORKED\n",
            "        return False\n",
        ),
    ),
    bug(
        "one failed renewal ends the renewals",
        "keep-alive",
        (
            KEEPER,
            "        self.add_early(lease, min(now + pause, max(lease.deadline, now)))\n",
            "        self.add_early(lease, lease.deadline)\n",
        ),
        near=2460,
    ),
    bug(
        "renewals come when the lease has almost expired",
        "keep-alive",
        (POLICY, "RENEWALS = 3\n", "RENEWALS = 1 / 0.985\n"),
    ),
    bug(
        "the renewer overlooks a lease that comes while it plans to sleep",
        "keep-alive",
        (
            KEEPER,
            "        self._schedule.add(lease, due)\n        if due < self._wake_at or not self._started:\n",
            "        self._schedule.add(lease, due)\n        if not self._started:\n",
        ),
    ),
    bug(
        "an error of one batch counts as the loss of all its leases",
        "keep-alive",
        (
            KEEPER,
            "        lease.failures += 1\n",
            (
                "        lease.failures += 1\n"
                "        self._let_go(lease, Loss.UNREACHABLE)\n"
                "        return\n"
            ),
        ),
    ),
    bug(
        "a time-out starts again with each attempt",
        "bounded waiting",
        (
            ASKING,
            "return pause if self.ctx.now() + pause < until else None",
            "return pause if self.failures < 5 else None",
        ),
    ),
    bug(
        "a dead waiter keeps its place permanently",
        "bounded waiting|FIFO among the living|keep-alive|no resurrection",
        (
            LINE,
            "            if row.expires <= now or row.weight > line.capacity:\n",
            "            if row.weight > line.capacity:\n",
        ),
    ),
    bug(
        "the weight of a dead holder is counted permanently",
        "exclusion|bounded waiting",
        (
            LINE,
            "            del line.held[row.id]\n            line.used -= row.weight\n",
            "            del line.held[row.id]\n",
        ),
    ),
    bug(
        "a nested read waits behind the writer that waits for it",
        "bounded waiting",
        (
            RWLOCK,
            "            if self._spec.weight == 1:\n                return await self._again(inside)\n",
            (
                "            if self._spec.weight == 1:\n"
                "                inside = None\n"
                "        if inside is not None and inside.lost is None:\n"
            ),
        ),
        near=2127,
    ),
]
