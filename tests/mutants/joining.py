"""Bugs between the request for a lock and its hold, and in the line itself."""

from __future__ import annotations

from .table import CLAIMS, CONTEXT, HOLD, KEEPER, LEASE, LINE, MULTI, POLICY, RUNTIME, bug

JOINING = [
    bug(
        "leave does not compare the id",
        "ownership",
        (
            LINE,
            "line.held.get(leave.id) or line.waiting.get(leave.id) if line",
            "next((r for r in line.rows() if r.ticket == leave.ticket), None) if line",
        ),
    ),
    bug(
        "a leave without id breaks the holder",
        "ownership",
        (
            LINE,
            "        line = self.lines.get(leave.name)\n",
            (
                "        if not leave.id:\n"
                "            return self.break_(leave.name, leave.ticket, now)\n"
                "        line = self.lines.get(leave.name)\n"
            ),
        ),
    ),
    bug(
        "a renewal renews any holder without comparing the id",
        "ownership|exclusion|local honesty|no resurrection|fence order",
        (
            LINE,
            "        return line, (line.held.get(cid) or line.waiting.get(cid)) if line else None\n",
            (
                "        found = line and (line.held.get(cid) or line.waiting.get(cid))\n"
                "        return line, found or (line and next(iter(line.held.values()), None))\n"
            ),
        ),
    ),
    bug(
        "the lease starts at the reply",
        "local honesty|exclusion",
        (
            CLAIMS,
            "self.heard, self.failures = self.asked, 0",
            "self.heard, self.failures = self.ctx.now(), 0",
        ),
        near=92,
    ),
    bug(
        "a renewed lease starts at the reply",
        "local honesty|exclusion",
        (
            KEEPER,
            "until = deadline(sent, length)",
            "until = deadline(now, length)",
        ),
        near=23225,
    ),
    bug(
        "deadlines follow the wall clock",
        "local honesty|exclusion|keep-alive|bounded waiting|no resurrection",
        (RUNTIME, "        self.now = process.now\n", "        self.now = process.wall\n"),
    ),
    bug(
        "acquire does not compare its deadline at the end",
        "local honesty|exclusion",
        (CLAIMS, "            if self.ctx.now() < until:\n", "            if True:\n"),
        (CLAIMS, "lock._make(lease) if ctx.now() < lease.deadline else None", "lock._make(lease)"),
        (
            CLAIMS,
            "if hold is not None and ctx.now() < lease.deadline and not ctx.closed:",
            "if hold:",
        ),
    ),
    bug(
        "an interrupted acquire is not undone",
        "no leak|bounded waiting|no false negative",
        (
            CLAIMS,
            "            await ctx.undo(attempt.leave(suspect=True), attempt.limit + GRACE_S)\n",
            "            pass\n",
        ),
        near=30,
    ),
    bug(
        "the undo writes no tombstone, so a late join overtakes it",
        "no leak|bounded waiting",
        (
            CLAIMS,
            "            await ctx.undo(attempt.leave(suspect=True), attempt.limit + GRACE_S)\n",
            "            await ctx.undo(attempt.leave(suspect=False))\n",
        ),
        near=30,
    ),
    bug(
        "a release forgets the tombstone of a join that was retried",
        "no leak|bounded waiting",
        (LEASE, "        self.suspect = suspect\n", "        self.suspect = False\n"),
        near=5030,
    ),
    bug(
        "the store ignores tombstones",
        "no leak|bounded waiting",
        (
            LINE,
            "        if claim.id in self.tombs and self.tombs[claim.id][0] > now:\n",
            "        if False:\n",
        ),
        near=30,
    ),
    bug(
        "an undo that fails is forgotten",
        "no leak|bounded waiting",
        (
            CONTEXT,
            (
                "            await self.runtime.finish(self.withdraw(undo, within))\n"
                "        except BaseException as failure:\n"
                "            self.keeper.later(undo, self.now() + undo.ttl)\n"
            ),
            (
                "            await self.runtime.finish(self.withdraw(undo, within))\n"
                "        except BaseException as failure:\n"
                "            pass\n"
            ),
        ),
        near=11054,
    ),
    bug(
        "a join is retried with a new id",
        "no leak|bounded waiting|FIFO among the living|no false negative",
        (
            CLAIMS,
            "                self.unanswered(failure)\n                await self._silence(failure)\n",
            (
                "                self.claim = Claim(self.ctx.runtime.new_id(), self.spec)\n"
                "                await self._silence(failure)\n"
            ),
        ),
    ),
    bug(
        "a grant by wake-up lasts for the whole ttl",
        "local honesty|exclusion|keep-alive",
        (
            CLAIMS,
            "                return tuple.__new__(Held, (push.fence, ctx.store.patience))\n",
            "                return tuple.__new__(Held, (push.fence, self.spec.ttl))\n",
        ),
        (
            CLAIMS,
            "ctx.keeper.add_pushed(lease, sent + ctx.store.patience * PUSHED_RENEW_PART)",
            "ctx.keeper.add(lease, sent + lease.every)",
        ),
    ),
    bug(
        "leave grants all waiters",
        "exclusion",
        (
            LINE,
            "            if not fits(line.capacity, line.used, row.weight):\n                break\n",
            "",
        ),
    ),
    bug(
        "a newcomer overtakes a waiter",
        "FIFO among the living",
        (
            LINE,
            "        if not line.waiting and fits(line.capacity, line.used, spec.weight):\n",
            "        if fits(line.capacity, line.used, spec.weight):\n",
        ),
    ),
    bug(
        "a join uses the capacity of its claim, not of the line",
        "exclusion|FIFO among the living",
        (
            LINE,
            "        if not line.waiting and fits(line.capacity, line.used, spec.weight):\n",
            "        if not line.waiting and fits(spec.capacity, line.used, spec.weight):\n",
        ),
        near=10232,
    ),
    bug(
        "a waiter sleeps until the holder's lease ends",
        "keep-alive|bounded waiting",
        (
            POLICY,
            "    return max(ASK_AGAIN_S_MIN, min(retry_in, NAP_S_MAX, left))\n",
            "    return max(ASK_AGAIN_S_MIN, min(10.0, left))\n",
        ),
    ),
    bug(
        "all() joins in the order of the caller",
        "bounded waiting",
        (
            MULTI,
            "sorted(locks, key=lambda lock: lock.name.encode())",
            "list(locks)",
        ),
        near=670,
    ),
    bug(
        "downgrade leaves and joins again",
        "local honesty|exclusion",
        (
            HOLD,
            (
                "        lease.weight = 1  # now: the store may grant a reader before its answer arrives here\n"
                "        await self._renew(lease.renewal(self._ctx.now()))\n"
            ),
            (
                "        lease.weight = 1\n"
                "        await self._ctx.store.leave(\n"
                "            Leave(self.name, lease.claim.id, lease.fence), 1.0\n"
                "        )\n"
            ),
        ),
    ),
]
