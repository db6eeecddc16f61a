"""What was promised, beside what the bank saw and what the ledger says."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

from .load import Asked
from .notice import notice_of
from .play import Seen

#: The clocks of the store and of the bank may differ by so much within an interval, seconds.
CLOCKS_S = 0.001


def check(seen: Seen) -> list[str]:
    """Every promise that was broken, in words; none if all is well."""
    return [
        *seen.wrongs,
        *([f"left in the queue: {seen.left}"] if seen.left else []),
        *_lost(seen),
        *_not_once(seen),
        *_out_of_order(seen),
        *_too_soon(seen),
        *_not_told(seen),
    ]


def _lost(seen: Seen) -> Iterator[str]:
    """Each refund that was accepted is in the ledger, and each order of one was paid back."""
    entered = {entry.refund for entry in seen.entries}
    paid = {entry.order for entry in seen.entries if entry.receipt}
    for one in seen.asked:
        if one.status == 0:
            yield f"{one.refund.id} was never answered"
        elif one.accepted and one.refund.id not in entered:
            yield f"{one.refund.id} was accepted and is lost"
        elif one.accepted and one.refund.order not in paid:
            yield f"{one.refund.id} was accepted and its order was never paid back"


def _not_once(seen: Seen) -> Iterator[str]:
    """The ledger and the bank agree: one refund per order was paid, and no other was tried."""
    paid = Counter(entry.order for entry in seen.entries if entry.receipt)
    yield from (
        f"{order} was paid back {times} times" for order, times in paid.items() if times > 1
    )
    called = {call["id"] for call in seen.calls}
    entered = {entry.refund for entry in seen.entries if entry.receipt}
    for refund in sorted(called ^ entered):
        yield f"{refund} is known to the {'bank' if refund in called else 'ledger'} alone"


def _out_of_order(seen: Seen) -> Iterator[str]:
    """Whoever was accepted before another was asked for is entered before it.

    For those that were asked for at the same time no order was promised.
    """
    place = {entry.refund: number for number, entry in enumerate(seen.entries)}
    merchants: dict[str, list[Asked]] = defaultdict(list)
    for one in seen.asked:
        if one.accepted and one.refund.id in place:
            merchants[one.refund.merchant].append(one)
    for asked in merchants.values():
        asked.sort(key=lambda one: one.sent)
        for former, later in itertools.combinations(asked, 2):
            if former.answered < later.sent and place[former.refund.id] > place[later.refund.id]:
                yield f"{later.refund.id} overtook {former.refund.id}"


def _too_soon(seen: Seen) -> Iterator[str]:
    """Between two calls for one merchant the bank had its pause."""
    merchants = defaultdict(list)
    for call in seen.calls:
        merchants[call["merchant"]].append(call)
    for calls in merchants.values():
        calls.sort(key=lambda call: call["begun"])
        for former, later in itertools.pairwise(calls):
            pause = later["begun"] - former["ended"]
            if pause < seen.interval - CLOCKS_S:
                yield f"{later['id']} came {pause:.3f} s after {former['id']}"


def _not_told(seen: Seen) -> Iterator[str]:
    """Each settled refund has its notice, with the truth in it, and no other refund has one."""
    true = dict(notice_of(entry) for entry in seen.entries)
    for refund in sorted(true.keys() | seen.told.keys()):
        if seen.told.get(refund) != true.get(refund):
            yield f"{refund}: told {seen.told.get(refund)!r} for {true.get(refund)!r}"


def figures(seen: Seen) -> str:
    """The play in numbers."""
    status = Counter(one.status for one in seen.asked)
    turned_down = sum(entry.receipt is None for entry in seen.entries)
    killed = Counter(strike.who.partition("-")[0] for strike in seen.strikes)
    died = ", ".join(f"{count} x {who}" for who, count in killed.items())
    asked = f"{len(seen.asked)} refunds asked for: {status[200]} paid at once, {status[202]} "
    asked += f"accepted for later, {status[409]} refused at once"
    entered = f"{len(seen.entries)} entered: {len(seen.entries) - turned_down} paid, "
    entered += f"{turned_down} turned down, as the order had been paid back by another click"
    told = f"{len(seen.told)} notices sent, in whatever order"
    return f"{asked}\n{entered}\n{told}\nkilled: {died or 'nobody'}"
