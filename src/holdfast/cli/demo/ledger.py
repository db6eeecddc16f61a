"""The ledger and its audit. It has a line per entry; each balance follows from the line before.

    number amount balance worker fence memo
         1     40      40     w4 1763737731000013 deposit

A writer must read the last balance first. So three faults leave a wrong balance, which the audit
finds: two holders at the same time, a lost line, and a late line from an earlier holder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Entry(NamedTuple):
    """One line of the ledger. Amounts are whole coins."""

    number: int
    amount: int
    balance: int
    worker: str
    fence: int
    memo: str = ""

    def line(self) -> str:
        """Return the entry as a line of the file, with its line end."""
        number, amount, balance, worker, fence, memo = self
        return f"{number:6} {amount:+6} {balance:7} {worker:>3} {fence} {memo}\n"


def read(line: bytes) -> Entry:
    """Return the entry on a line; ``ValueError`` if the line isn't an entry."""
    number, amount, balance, worker, fence, memo = line.decode("ascii").split(maxsplit=5)
    if not memo.endswith("\n"):
        raise ValueError("the line has no end")
    return Entry(int(number), int(amount), int(balance), worker, int(fence), memo.rstrip("\n"))


def follow(data: bytes, worker: str, fence: int, coins: int, memo: str = "") -> Entry:
    """Return the next entry after ``data``: a deposit, or a withdrawal if the balance allows it."""
    cut = data.rfind(b"\n", 0, -1) + 1
    last = read(data[cut:]) if data else Entry(0, 0, 0, "", 0)
    amount = coins if last.balance + coins >= 0 else -coins
    memo = memo or ("deposit" if amount > 0 else "withdrawal")
    return Entry(last.number + 1, amount, last.balance + amount, worker, fence, memo)


def audit(data: bytes, promised: Iterable[Entry], pardoned: Iterable[int] = ()) -> list[str]:
    """Return a text for each error in the contents ``data`` of the ledger.

    ``promised``: the entries that workers report as written. The ledger must contain each of them
    once, and no other entry. ``pardoned``: fences of killed writers, whose entries can be missing.
    """
    wrong = []
    found: list[Entry] = []
    last = Entry(0, 0, 0, "", 0)
    for at, line in enumerate(data.splitlines(keepends=True), 1):
        try:
            entry = read(line)
        except ValueError:
            wrong.append(f"line {at} is not an entry: {line[:60]!r}")
            continue
        if entry.number != at:
            wrong.append(f"line {at} is numbered {entry.number}")
        if entry.balance != last.balance + entry.amount:
            wrong.append(f"line {at}: {last.balance} {entry.amount:+} is not {entry.balance}")
        if entry.fence <= last.fence:
            wrong.append(f"line {at}: fence {entry.fence} is not greater than {last.fence}")
        found.append(entry)
        last = entry
    there, told, pardoned = Counter(found), Counter(promised), frozenset(pardoned)
    for what, entries in ("reported by no worker", there - told), ("missing", told - there):
        wrong += [f"{what}: {e.line()[:60]!r}" for e in entries if e.fence not in pardoned]
    return wrong
