"""Bugs that the simulator must catch: name, the invariants that may report it, the edits.

Each is a mistake that somebody has made in a real lock library, or that is one word away here.
"""

from __future__ import annotations

from typing import NamedTuple

from .plant import Edit

CLAIMS = "holdfast.core.claims"
HOLD = "holdfast.core.hold"
KEEPER = "holdfast.core.keeper"
MULTI = "holdfast.core.multi"
POLICY = "holdfast.core.policy"
CONTEXT = "holdfast.core.context"
CLIENT = "holdfast.core.client"
RWLOCK = "holdfast.core.rwlock"
LINE = "holdfast.stores.memory.line"
SERVER = "holdfast.testing.simulator.server"
RUNTIME = "holdfast.testing.simulator.runtime"


class Mutant(NamedTuple):
    """A planted bug."""

    name: str
    caught_by: tuple[str, ...]
    edits: tuple[Edit, ...]
    #: Look from this seed on first: there it was found before.
    near: int = 0


def bug(name: str, caught_by: str, *edits: tuple[str, str, str], near: int = 0) -> Mutant:
    """A planted bug; ``caught_by`` names invariants, with a bar between them."""
    return Mutant(name, tuple(caught_by.split("|")), tuple(Edit(*e) for e in edits), near)


MUTANTS = [
    bug(
        "leave does not compare the id",
        "ownership",
        (
            LINE,
            "            return line.held.get(leave.id) or line.waiting.get(leave.id)\n",
            "            pass\n",
        ),
    ),
    bug(
        "keep renews whoever holds, without comparing",
        "exclusion|local honesty|no resurrection|fence order",
        (
            LINE,
            "        row = line.held.get(cid) or line.waiting.get(cid)\n",
            (
                "        row = line.held.get(cid) or line.waiting.get(cid)"
                " or next(iter(line.held.values()), None)\n"
            ),
        ),
    ),
    bug(
        "the lease starts at the reply",
        "local honesty|exclusion",
        (
            CLAIMS,
            "            self._heard(sent)\n            if isinstance(answer, Waiting):",
            "            self._heard(ctx.now())\n            if isinstance(answer, Waiting):",
        ),
    ),
    bug(
        "a renewed lease starts at the reply",
        "local honesty|exclusion",
        (
            KEEPER,
            "lease.renewed(sent, answer.expires_in, now)",
            "lease.renewed(now, answer.expires_in, now)",
        ),
        near=436,
    ),
    bug(
        "deadlines by the wall clock",
        "local honesty|exclusion|keep-alive|bounded waiting|no resurrection",
        (RUNTIME, "        self.now = process.now\n", "        self.now = process.wall\n"),
    ),
    bug(
        "acquire does not look at its deadline at the end",
        "local honesty|exclusion",
        (CLAIMS, "                if self.ctx.now() < until:\n", "                if True:\n"),
        (CLAIMS, "if ctx.now() < lease.deadline and not ctx.closed:", "if True:"),
    ),
    bug(
        "an interrupted acquire is not undone",
        "no leak|bounded waiting|no false negative",
        (CLAIMS, "            await ctx.undo(attempt.leave(suspect=True))\n", "            pass\n"),
    ),
    bug(
        "the undo writes no tombstone, so a late join overtakes it",
        "no leak|bounded waiting",
        (
            CLAIMS,
            "            await ctx.undo(attempt.leave(suspect=True))\n",
            "            await ctx.undo(attempt.leave(suspect=False))\n",
        ),
    ),
    bug(
        "a release forgets the tombstone of a join that was retried",
        "no leak|bounded waiting",
        (HOLD, "        self.suspect = suspect\n", "        self.suspect = False\n"),
        near=418,
    ),
    bug(
        "the store ignores tombstones",
        "no leak|bounded waiting",
        (
            LINE,
            "        if claim.id in self.tombs and self.tombs[claim.id][0] > now:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "an undo that fails is forgotten",
        "no leak|bounded waiting",
        (
            CONTEXT,
            (
                "            await self.runtime.finish(self.store.leave(leave, UNDO_S))\n"
                "        except BaseException:\n"
                "            self.keeper.later(leave, self.now() + leave.ttl)\n"
            ),
            (
                "            await self.runtime.finish(self.store.leave(leave, UNDO_S))\n"
                "        except BaseException:\n"
                "            pass\n"
            ),
        ),
        near=1687,
    ),
    bug(
        "a join is retried with a new id",
        "no leak|bounded waiting|FIFO among the living|no false negative",
        (
            CLAIMS,
            "                self.suspect = True\n                await self._silence(failure)\n",
            (
                "                self.claim = Claim(ctx.runtime.new_id(), self.spec)\n"
                "                await self._silence(failure)\n"
            ),
        ),
    ),
    bug(
        "a push grants the whole ttl",
        "local honesty|exclusion|keep-alive",
        (
            CLAIMS,
            "                return Held(push.fence, ctx.store.patience)\n",
            "                return Held(push.fence, self.spec.ttl)\n",
        ),
        (
            CLAIMS,
            "ctx.keeper.add_early(lease, attempt.sent + ctx.store.patience * PUSHED_RENEW_PART)",
            "ctx.keeper.add(lease, attempt.sent + lease.every)",
        ),
    ),
    bug(
        "a late poke for an earlier ticket is believed",
        "local honesty|exclusion",
        (
            CLAIMS,
            "if push is not None and self.trust and push.fence == waiting.ticket:",
            "if push is not None and self.trust:",
        ),
        near=142281,
    ),
    bug(
        "leave makes everybody a holder",
        "exclusion",
        (
            LINE,
            "            if not fits(line.capacity, line.used, row.weight):\n                break\n",
            "",
        ),
    ),
    bug(
        "a newcomer overtakes who waits",
        "FIFO among the living",
        (
            LINE,
            "        if not line.waiting and fits(line.capacity, line.used, spec.weight):\n",
            "        if fits(line.capacity, line.used, spec.weight):\n",
        ),
    ),
    bug(
        "the capacity is that of the claim",
        "exclusion|FIFO among the living",
        (
            LINE,
            "        if not line.waiting and fits(line.capacity, line.used, spec.weight):\n",
            "        if not line.waiting and fits(spec.capacity, line.used, spec.weight):\n",
        ),
        near=509,
    ),
    bug(
        "a waiter sleeps until the holder's lease ends",
        "keep-alive|bounded waiting",
        (
            POLICY,
            "    return max(ASK_AGAIN_S_MIN, min(retry_in, ASK_AGAIN_S_MAX, left))\n",
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
        near=638,
    ),
    bug(
        "all() gives up at the first failed release",
        "no leak|bounded waiting",
        (
            MULTI,
            (
                "                except Exception as problem:\n"
                "                    failure = failure or problem\n"
                "                left.pop()\n"
            ),
            (
                "                except Exception as problem:\n"
                "                    left.clear()\n"
                "                    raise problem\n"
                "                left.pop()\n"
            ),
        ),
    ),
    bug(
        "downgrade leaves and joins again",
        "local honesty|exclusion",
        (
            HOLD,
            (
                "        lease.weight = 1  # from the call on: a reader may be in before the answer is back\n"
                "        await self._keep(lease.keep(self._ctx.now()))\n"
            ),
            (
                "        lease.weight = 1\n"
                "        await self._ctx.store.leave(\n"
                "            Leave(self.name, lease.claim.id, lease.fence), 1.0\n"
                "        )\n"
            ),
        ),
    ),
    bug(
        "the writer's rights last until the downgrade is answered",
        "exclusion",
        (
            HOLD,
            (
                "        lease.weight = 1  # from the call on: a reader may be in before the answer is back\n"
                "        await self._keep(lease.keep(self._ctx.now()))\n"
            ),
            (
                "        await self._keep(lease.keep(self._ctx.now())._replace(weight=1))\n"
                "        lease.weight = 1\n"
            ),
        ),
    ),
    bug(
        "adopt does not exchange the id",
        "exclusion|ownership|local honesty",
        (LINE, "        if keep.new_id and keep.new_id != row.id:\n", "        if False:\n"),
        (CLIENT, "fresh = claim._replace(id=ctx.runtime.new_id())", "fresh = claim"),
    ),
    bug(
        "fences from a plain counter, after data loss",
        "fence order",
        (
            SERVER,
            "        lines.next_ticket = max(lines.next_ticket, int(now * 1e6))\n",
            "",
        ),
    ),
    bug(
        "no grace after data loss",
        "exclusion",
        (
            SERVER,
            "            self.grace_until = self.now() + self.ttl_max + 1.0\n",
            "",
        ),
    ),
    bug(
        "no margin for clocks of different rates",
        "local honesty|exclusion",
        (
            POLICY,
            "    return sent + lease - lease * RATE_ERROR - MARGIN_S\n",
            "    return sent + lease\n",
        ),
    ),
    bug(
        "a late answer brings a lost hold back",
        "no resurrection|local honesty",
        (
            HOLD,
            "        if self.loss(now) is not None:\n            return False\n",
            "        self.reason = None\n",
        ),
        near=2307,
    ),
    bug(
        "release does not mark the hold as closing",
        "no false loss|keep-alive",
        (
            HOLD,
            (
                "        lease.closing = True  # before anything is sent, so that the keeper reports no"
                " false loss\n        ctx.keeper.drop(lease)\n"
            ),
            "",
        ),
    ),
    bug(
        "an acquire that times out stays in the line",
        "no leak|no false negative|bounded waiting",
        (
            CLAIMS,
            "            await ctx.store.leave(leave, GRACE_S)\n",
            "            pass\n",
        ),
    ),
    bug(
        "a forked child believes in its parent's holds",
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
        (HOLD, "            if self.lost is Loss.FORKED:\n", "            if False:\n"),
    ),
    bug(
        "one failed renewal ends the keeping alive",
        "keep-alive",
        (
            KEEPER,
            "        self.add_early(lease, min(now + pause, max(lease.deadline, now)))\n",
            "        self.add_early(lease, lease.deadline)\n",
        ),
        near=416,
    ),
    bug(
        "renewals come when the lease is nearly over",
        "keep-alive",
        (POLICY, "    return ttl / 3\n", "    return ttl * 0.985\n"),
    ),
    bug(
        "the keeper overlooks what comes while it plans to sleep",
        "keep-alive",
        (
            KEEPER,
            "        if due < self._wake_at or not self._started:\n            self._rouse()\n\n    def add_early",
            "        if not self._started:\n            self._rouse()\n\n    def add_early",
        ),
    ),
    bug(
        "an error of one batch is taken for the loss of all",
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
        "time-outs count from each attempt anew",
        "bounded waiting",
        (
            CLAIMS,
            "        if ctx.now() + pause >= min(until, self.heard + SILENCE_S):\n",
            "        if self.failures > 4:\n",
        ),
    ),
    bug(
        "a dead waiter holds its place for ever",
        "bounded waiting|FIFO among the living|keep-alive|no resurrection",
        (
            LINE,
            "            if row.expires <= now or row.weight > line.capacity:\n",
            "            if row.weight > line.capacity:\n",
        ),
    ),
    bug(
        "what a dead holder held is counted for ever",
        "exclusion|bounded waiting",
        (
            LINE,
            "            del line.held[row.id]\n            line.used -= row.weight\n",
            "            del line.held[row.id]\n",
        ),
    ),
    bug(
        "a nested read stands in line behind the writer that waits for it",
        "bounded waiting",
        (
            RWLOCK,
            '            if self._spec.weight == 1:\n                return self._again(inside), ""\n',
            (
                "            if self._spec.weight == 1:\n"
                "                inside = None\n"
                "        if inside is not None and inside.lost is None:\n"
            ),
        ),
    ),
]
