"""The ledger: one line per entry, each balance built on the one before, and its audit.

    number amount balance worker fence memo
         1     40      40     w4 1763737731000013 deposit

Whoever writes an entry has to read the balance first. So two holders at once, a lost line or a
line from a holder of yesterday show as a gap that anybody can find with a pencil.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
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
        """The entry as it is written, with its line end."""
        number, amount, balance, worker, fence, memo = self
        return f"{number:6} {amount:+6} {balance:7} {worker:>3} {fence} {memo}\n"


def read(line: bytes) -> Entry:
    """The entry on a line; ``ValueError`` if it is none."""
    number, amount, balance, worker, fence, memo = line.decode("ascii").split(maxsplit=5)
    return Entry(int(number), int(amount), int(balance), worker, int(fence), memo.rstrip("\n"))


def follow(data: bytes, worker: str, fence: int, coins: int, memo: str = "") -> Entry:
    """The next entry after these contents: a deposit, or a withdrawal if the balance allows it."""
    cut = data.rfind(b"\n", 0, -1) + 1
    last = read(data[cut:]) if data else Entry(0, 0, 0, "", 0)
    amount = coins if last.balance + coins >= 0 else -coins
    memo = memo or ("deposit" if amount > 0 else "withdrawal")
    return Entry(last.number + 1, amount, last.balance + amount, worker, fence, memo)


def audit(data: bytes, promised: Iterable[Entry], pardoned: Iterable[int] = ()) -> list[str]:
    """What is wrong with these contents, in words; nothing if they are right.

    ``promised`` are the entries whose writers were told that they are written: each must be
    there, once, and nothing else. Entries under a ``pardoned`` fence may be there or not: those
    of a writer that was killed before it could be told.
    """
    found: list[Entry] = []
    wrong: list[str] = []
    for at, line in enumerate(data.splitlines(keepends=True), 1):
        try:
            if not line.endswith(b"\n"):
                raise ValueError
            entry = read(line)
        except ValueError:
            wrong.append(f"line {at} is not an entry: {_shown(line)}")
            continue
        wrong += [f"line {at}: {what}" for what in _misfits(entry, at, found)]
        found.append(entry)
    return wrong + list(_differences(found, promised, frozenset(pardoned)))


def _misfits(entry: Entry, at: int, before: list[Entry]) -> Iterator[str]:
    """How an entry doesn't fit what stands before it."""
    if entry.number != at:
        yield f"it is numbered {entry.number}"
    balance = before[-1].balance if before else 0
    if balance + entry.amount != entry.balance:
        yield f"the balance is {entry.balance}, but {balance} {entry.amount:+} was to be expected"
    if not before:
        return
    if entry.fence < before[-1].fence:
        yield f"its fence {entry.fence} is smaller than {before[-1].fence} on the line before"
    elif entry.fence == before[-1].fence:
        yield f"its fence {entry.fence} was used by the line before"


def _differences(
    found: list[Entry], promised: Iterable[Entry], pardoned: frozenset[int]
) -> Iterator[str]:
    """Entries that were promised and aren't there, or are there and weren't promised."""
    left = Counter(promised)
    for at, entry in enumerate(found, 1):
        if left[entry]:
            left[entry] -= 1
        elif entry.fence not in pardoned:
            yield f"line {at}: no worker says that it wrote this: {_shown(entry.line().encode())}"
    for entry in left.elements():
        if entry.fence not in pardoned:
            line = _shown(entry.line().encode())
            yield f"entry {entry.number} of {entry.worker} is missing: {line}"


def _shown(line: bytes) -> str:
    text = " ".join(line[:60].decode("ascii", "backslashreplace").split())
    return repr(text + ("..." if len(line) > 60 else ""))
