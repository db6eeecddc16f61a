"""The refunds example, played on every store that has queues, and its check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.refunds.bank import Bank
from examples.refunds.check import check, figures
from examples.refunds.crew import Strike
from examples.refunds.ledger import Entry, Ledger
from examples.refunds.load import Asked
from examples.refunds.notice import announce, notice_of, send
from examples.refunds.picture import draw
from examples.refunds.play import Scale, Seen, play
from examples.refunds.refund import Refund, parse
from examples.refunds.settings import Settings, refunds_of
from holdfast.sync import Client
from holdfast.testing.faults import dice
from tests.queue_stores import Place, durable
from tests.tidy.tree import ROOT
from tests.torture.scale import FULL

__all__ = ["durable"]

SMALL = Scale(nodes=2, workers=2, merchants=4, refunds=6, strikes=3)
LARGE = Scale(nodes=4, workers=6, merchants=20, refunds=150, strikes=60)


@pytest.mark.usual(1)
def test_refunds_are_paid_once_in_order_although_processes_are_killed(
    durable: Place, tmp_path: Path
) -> None:
    # Given customers, nodes, workers and a bank, and kills of all processes except the bank
    scale = LARGE if FULL else SMALL
    scale = scale._replace(seed=dice("refunds").randrange(1 << 32))
    known = Settings(store=durable.url, interval=0.1, ttl=1.5)
    seen = play(tmp_path, known, scale, store_dies=durable.dies)
    print(draw(seen), figures(seen), (tmp_path / "log").read_text()[-4000:], sep="\n")
    # Then every promise is kept
    assert check(seen) == []
    killed = {strike.who.partition("-")[0] for strike in seen.strikes}
    assert killed >= {"worker", "store" if durable.dies else "node"}
    assert len(seen.asked) >= scale.merchants * scale.refunds


def test_the_demo_plays_it_on_the_embedded_store() -> None:
    pytest.importorskip("holdfast.stores.sqlite")
    done = subprocess.run(
        [sys.executable, "-m", "refunds", "--merchants", "2", "--refunds", "4", "--strikes", "1"],
        capture_output=True,
        text=True,
        cwd=ROOT / "examples",
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every refund that was accepted was paid once, in order" in done.stdout
    assert len(re.findall(r"^merchant-\d .*\d", done.stdout, re.MULTILINE)) == 2


# -- the check finds what is wrong -------------------------------------------------------------


def call(order: int, begun: float, **other: object) -> dict[str, object]:
    """Return a call of the bank: it pays refund ``order`` of merchant m, in 0.1 s."""
    known = {"id": f"r{order}", "merchant": "m", "order": f"o{order}", "worker": "worker-1"}
    return {**known, "begun": begun, "ended": begun + 0.1, **other}


def good() -> Seen:
    """Return a correct history: three refunds in turn, and a second click on the third."""
    refunds = [Refund(f"r{n}", "m", f"o{n}", 100) for n in (1, 2, 3)]
    again = Refund("r4", "m", "o3", 100)
    asked = [Asked(one, at, at + 0.5, 202) for at, one in enumerate(refunds, 1)]
    asked.append(Asked(again, 3.1, 3.2, 202))
    entries = [Entry(*one, f"receipt of {one.id}") for one in refunds]
    entries.append(Entry(*again, None))
    calls = [call(1, 2.0), call(2, 2.5), call(3, 3.2)]
    told = dict(notice_of(entry) for entry in entries)
    return Seen(0.4, asked, calls, [], entries, [Strike("worker-1", 2.2)], "", told)


def test_what_is_good_passes() -> None:
    assert check(good()) == []
    assert "3 paid, 1 turned down" in figures(good())
    assert re.search(r"merchant-?|m .*1", draw(good(), 60))


#: Wrong histories: what differs from the correct one.
FAULTS: dict[str, Callable[[Seen], dict[str, object]]] = {
    "lost": lambda seen: {"entries": seen.entries[:2] + seen.entries[3:]},
    "never paid": lambda seen: {
        "entries": [*seen.entries[:2], seen.entries[2]._replace(receipt=None)]
    },
    "paid twice": lambda seen: {
        "entries": [*seen.entries[:3], seen.entries[3]._replace(receipt="more")]
    },
    "paid behind our back": lambda seen: {"calls": [*seen.calls, call(9, 9.0)]},
    "overtaken": lambda seen: {"entries": [seen.entries[1], seen.entries[0], *seen.entries[2:]]},
    "too soon": lambda seen: {"calls": [call(1, 2.0), call(2, 2.49), call(3, 3.2)]},
    "two at once": lambda seen: {"calls": [call(1, 2.0, ended=2.6), call(2, 2.5), call(3, 3.2)]},
    "left over": lambda seen: {"left": "1 dead letter"},
    "seen by the bank": lambda seen: {"wrongs": ["two at once"]},
    "never answered": lambda seen: {"asked": [*seen.asked, seen.asked[0]._replace(status=0)]},
    "not reported": lambda seen: {"told": {id: it for id, it in seen.told.items() if id != "r2"}},
    "reported wrongly": lambda seen: {"told": {**seen.told, "r4": seen.told["r3"]}},
    "a report of no refund": lambda seen: {"told": {**seen.told, "r9": "paid"}},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_finds(fault: str) -> None:
    assert check(good()._replace(**FAULTS[fault](good()))) != []


# -- refunds and notices in the queue ----------------------------------------------------------


def test_notices_are_sent_side_by_side_and_refunds_of_a_merchant_one_by_one(
    tmp_path: Path,
) -> None:
    with Client(f"memory://{tmp_path.name}") as client:
        queue = refunds_of(client, Settings())
        # Given two refunds of one merchant and two notices of it
        for number in (1, 2):
            refund = Refund(f"r{number}", "m", f"o{number}", 100)
            queue.put(refund._asdict(), group=refund.merchant, id=refund.id)
            announce(queue, refund.id)
        announce(queue, "r1")  # the second time is dropped
        # When as many jobs as possible are taken
        taken = []
        while (job := queue.take(timeout=0)) is not None:
            taken.append(job)
        # Then the second refund waits for the first, and the notices don't wait
        assert sorted(job.id for job in taken) == ["notice:r1", "notice:r2", "r1"]
        assert {job.id: job.group for job in taken} == {
            "notice:r1": None, "notice:r2": None, "r1": "m"
        }  # fmt: skip


def test_a_notice_contains_the_result_of_the_refund_and_is_sent_once(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger.db"))
    with Client(f"memory://{tmp_path.name}") as client:
        queue = refunds_of(client, Settings())
        queue.put(Refund("r1", "m", "o1", 100)._asdict(), group="m", id="r1")
        paid = queue.take(timeout=0)
        assert paid is not None
        ledger.write(paid, parse(paid.payload), "receipt-1")
        announce(queue, "r1")
        job = queue.take(timeout=0)
        assert job is not None
        # If a worker dies after it has sent the notice and before its ack, the notice is sent again
        send(job, ledger)
        send(job, ledger)
    assert ledger.outbox() == {"r1": "100 cents for o1: receipt-1"}


# -- the bank -----------------------------------------------------------------


def test_the_bank_notices_early_calls_and_repeated_payments() -> None:
    bank = Bank(interval=60.0)
    for fence, refund in ((5, "r1"), (6, "other")):
        known = {"merchant": "m", "order": "o1", "cents": 1, "worker": "w", "fence": fence}
        assert bank.answer("/pay", {"id": refund, **known})[0] == 200
    # And a payment with an old fence is refused
    assert bank.answer("/pay", {"id": "late", **known, "fence": 4})[0] == 409
    soon, twice = bank.answer("/calls", None)[1]["wrongs"]
    assert soon.startswith("m: other after 0.")
    assert twice == "o1 was paid back by r1 and other"
