"""Compares the promises with the bank's record and the ledger."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

from .load import Asked
from .notice import notice_of
from .play import Seen

#: Allowed difference in seconds between the store's and the bank's measure of an interval.
CLOCKS_S = 0.001


def check(seen: Seen) -> list[str]:
    """Return a text for every broken promise."""
    return [
        *seen.wrongs,
        *([f"left in the queue: {seen.left}"] if seen.left else []),
        *_lost(seen),
        *_not_once(seen),
        *_out_of_order(seen),
        *_too_soon(seen),
        *_not_reported(seen),
    ]


def _lost(seen: Seen) -> Iterator[str]:
    """Yield accepted refunds that are not in the ledger, or whose order was not paid back."""
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
    """Yield orders that were paid back twice, and refunds that only bank or ledger has as paid."""
    paid = Counter(entry.order for entry in seen.entries if entry.receipt)
    yield from (
        f"{order} was paid back {times} times" for order, times in paid.items() if times > 1
    )
    called = {call["id"] for call in seen.calls}
    entered = {entry.refund for entry in seen.entries if entry.receipt}
    for refund in sorted(called ^ entered):
        yield f"{refund} is known to the {'bank' if refund in called else 'ledger'} alone"


def _out_of_order(seen: Seen) -> Iterator[str]:
    """Yield refunds that were entered before an earlier one of the same merchant.

    Earlier means that its reply came before the later one was sent. No order is promised for
    refunds that were sent at the same time.
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
    """Yield payments that began too early after the last payment of the same merchant."""
    merchants = defaultdict(list)
    for call in seen.calls:
        merchants[call["merchant"]].append(call)
    for calls in merchants.values():
        calls.sort(key=lambda call: call["begun"])
        for former, later in itertools.pairwise(calls):
            pause = later["begun"] - former["ended"]
            if pause < seen.interval - CLOCKS_S:
                yield f"{later['id']} came {pause:.3f} s after {former['id']}"


def _not_reported(seen: Seen) -> Iterator[str]:
    """Yield refunds whose notice is missing or wrong, and notices of refunds without an entry."""
    true = dict(notice_of(entry) for entry in seen.entries)
    for refund in sorted(true.keys() | seen.told.keys()):
        if seen.told.get(refund) != true.get(refund):
            yield f"{refund}: reported {seen.told.get(refund)!r} for {true.get(refund)!r}"


def figures(seen: Seen) -> str:
    """Return a summary of the run in numbers."""
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
