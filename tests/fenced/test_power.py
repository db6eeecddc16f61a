"""Power failures, deaths and disk faults in any order: acknowledged writes stay and are fenced.

The simulation finds each of the planted bugs below, so it can find other bugs too.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.errors import FenceRejected
from holdfast.fenced import FencedFile, file
from holdfast.fenced.blocking import desk
from holdfast.testing.promise import PromiseBroken
from tests.fenced.power import CALLS, Disk, Killed
from tests.mutants.changed import proven
from tests.mutants.failure import NOTES, broken, failure, judge, noted, recorded, watched
from tests.torture.scale import times

SEED = random.SystemRandom().randrange(1 << 32)
HISTORIES = 300
#: Maximum number of histories to find one bug. The rarest bug shows in about one of 400 histories,
#: so this number misses it in less than one of 10^10 runs.
HISTORIES_PER_BUG = 10_000


class Violation(PromiseBroken):
    """The guarantee of FencedFile is broken."""


class History:
    """One file through three lives: writes with rising fences, cut short at random."""

    def __init__(self, seed: int, room: Path) -> None:
        self.dice = random.Random(seed)
        self.room = room
        self.disk = Disk(self._folder(0), self.dice)
        self.disk.folder.mkdir()
        #: The contents that the file can have, each with the least fence that must then be
        #: recorded.
        self.possible: dict[bytes, int] = {b"": 0}
        if self.dice.random() < 0.5:
            self.disk.put("ledger", b"from before")
            self.possible = {b"from before": 0}
        self.fence = 0
        #: Without syncing, nothing is promised about a power failure, so the power does not fail
        #: then.
        self.durable = self.dice.random() < 0.8
        self.story: list[str] = ["durable" if self.durable else "not durable"]

    def run(self) -> None:
        """Three lives of the machine; in each life, processes write until they are killed."""
        for life in range(1, 4):
            for _ in range(self.dice.randrange(1, 5)):
                self._process()
            lost = self.durable and self.dice.random() < 0.7
            if lost:
                self.disk = self.disk.lose_power(self._folder(life))
                self.story.append("power failure")
            with self.disk:
                self._look(certain=lost)

    def _folder(self, life: int) -> Path:
        return self.room / f"life{life}"

    def _fenced(self) -> FencedFile:
        return FencedFile(self.disk.folder / "ledger", durable=self.durable)

    def _process(self) -> None:
        with self.disk:
            # Half of the deaths come just before a sync, because most data is at risk there.
            self.disk.kill_at = self.dice.choice((CALLS, ("fsync",)))
            self.disk.kill_in = self.dice.choice((0, self.dice.randrange(1, 30), 1, 2, 3))
            for _ in range(self.dice.randrange(1, 5)):
                self.disk.fault_in = self.dice.choice((0, 0, self.dice.randrange(1, 8)))
                try:
                    self._write()
                except Killed:
                    self.story.append("killed")
                    return

    def _write(self) -> None:
        self.fence += self.dice.randrange(3)
        self.fence = max(self.fence, 1)
        data = self.dice.randbytes(self.dice.choice((3, 50, 5000, 20_000)))
        replaces = self.dice.random() < 0.3
        before = dict(self.possible)
        after = {(data if replaces else old + data): self.fence for old in before}
        self.possible = {**before, **after}  # after this it can be either
        self.story.append(f"{'replace' if replaces else 'append'} {self.fence}: {len(data)} bytes")
        fenced = self._fenced()
        try:
            (fenced.replace if replaces else fenced.append)(self.fence, data)
        except OSError as wrong:
            self.story.append(f"failed: {wrong.strerror}")
            if "nothing of this write was kept" in str(wrong):
                self.possible = before
            return
        self.possible = after

    def _look(self, certain: bool) -> None:
        """Check that the contents are possible; if they are certain to be on the disk, they are now
        the only possible contents.

        The data of a killed process can be visible, and be lost later with the power.
        """
        fenced = self._fenced()
        try:
            seen = fenced.read()
        except FileNotFoundError:
            seen = b""
        if seen not in self.possible:
            raise Violation(f"{len(seen)} bytes: lost, torn or mixed")
        least = self.possible[seen]
        if fenced.fence() < least:
            raise Violation(f"shows a write of fence {least}, but accepts {fenced.fence()}")
        if least > 1:
            for write in (fenced.append, fenced.replace):
                try:
                    write(least - 1, b"late")
                except FenceRejected:
                    continue
                raise Violation(f"accepted {least - 1} after {least}")
            certain = True  # since the fenced file has repaired and synced its contents
        if certain:
            self.possible = {seen: least}


class Found(Exception):  # what is looked for
    """A violation was found; the message is its story."""


def histories(room: Path, count: int, seed: int, wanted: Sequence[str] = ()) -> None:
    """Run histories; raise ``Found`` at the first violation, or the first one in ``wanted``."""
    for number in range(count):
        folder = room / f"{number}"
        folder.mkdir()
        history = History(seed + number, folder)
        try:
            history.run()
        except Exception as wrong:
            if not wanted or str(failure(wrong)) in wanted:
                story = "; ".join(history.story)
                raise Found(f"seed {seed + number}: {story}: {wrong!r}") from wrong
        finally:
            shutil.rmtree(folder)


def test_no_order_of_power_failures_deaths_and_faults_breaks_the_guarantee(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    histories(tmp_path, times(10 * HISTORIES, HISTORIES // 2), SEED)


WRITTEN = """                files.write(file, payload)
                self._sync(file)
            except"""
UNSYNCED = """                files.write(file, payload)
            except"""
MARKED = """                files.write(file, payload)
                self._settle()
                self._sync(file)
            except"""
SHORT = """                os.write(file.fileno(), payload[:4096])
                self._sync(file)
            except"""
#: A bug in words, and how it is planted in the text of desk.py.
BUGS = {
    "the fence is noted after the data is written": (
        """            self._announce(fence, at, payload)
            try:
                files.write(file, payload)
""",
        """            try:
                files.write(file, payload)
                self._announce(fence, at, payload)
""",
    ),
    "the note isn't synced before the data is written": (
        "        self._sync(self._sidecar)\n        self.note = note",
        "        self.note = note",
    ),
    "an append isn't synced": (WRITTEN, UNSYNCED),
    "a replacement isn't synced": (
        "                    files.write(file, payload)\n                    self._sync(file)\n",
        "                    files.write(file, payload)\n",
    ),
    "the folder isn't synced after a replacement": (
        "        self._sync_folder()\n        self._settle()\n\n    def _begin",
        "        self._settle()\n\n    def _begin",
    ),
    "the folder isn't synced for a new file": ("            if at == 0:", "            if at < 0:"),
    "the folder isn't synced for a new sidecar": (
        "        self._sync_folder()\n        self._put(notes.BLANK, 0)",
        "        self._put(notes.BLANK, 0)",
    ),
    "a new sidecar isn't synced before its first note": (
        "        self._put(notes.BLANK, 0)\n        self._sync(self._sidecar)",
        "        self._put(notes.BLANK, 0)",
    ),
    "a replacement doesn't note its fence": ('            self._announce(fence, 0, b"")\n', ""),
    "both notes are written to the same place": (
        "self._put(note.page(), note.offset)",
        "self._put(note.page(), 0)",
    ),
    "a torn end is left": (
        "        if not settled:\n            self._mend()",
        "        if not settled:\n            self._settle()",
    ),
    "a torn end is shown to readers": (
        "            return data[: note.at]",
        "            return data",
    ),
    "an end that isn't marked as settled is cut off": (
        " and files.crc(file, self.note.at) != self.note.crc",
        "",
    ),
    "the mark is set before the data is synced": (WRITTEN, MARKED),
    "the cut isn't synced before the mark is set": (
        "        os.ftruncate(file.fileno(), at)\n        self._sync(file)",
        "        os.ftruncate(file.fileno(), at)",
    ),
    "an append of a dead process isn't synced before it counts as complete": (
        "                self._sync(file)\n        self._settle()",
        "        self._settle()",
    ),
    "the note of a dead process isn't synced before the next note": (
        "        self._sync(self._sidecar)  # its note",
        "        # its note",
    ),
    "a rename by a dead process isn't synced before the next append": (
        "        self._where.fresh.unlink(missing_ok=True)\n        self._sync_folder()",
        "        self._where.fresh.unlink(missing_ok=True)",
    ),
    "a failed append isn't cut off": (
        "                    self._cut(file, at)\n                    self._settle()\n",
        "                    self._settle()\n",
    ),
    "a short append counts as whole": (WRITTEN, SHORT),
}


def planted(bug: str, room: Path) -> ModuleType:
    """desk.py with a bug in it."""
    text = inspect.getsource(desk)
    right, wrong = BUGS[bug]
    assert text.count(right) == 1, f"the place for the bug is gone: {right!r}"
    path = room / "planted.py"
    notes = str(room / "notes")
    path.write_text(ast.unparse(watched(text.replace(right, wrong), notes)))
    spec = importlib.util.spec_from_file_location(f"{desk.__package__}.planted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = "power"
#: The code with the bugs, and the code that must find them.
NEAR = {Path(desk.__file__), Path(__file__), Path(__file__).with_name("power.py")}


@pytest.mark.parametrize("bug", proven(TABLE, BUGS, dict.fromkeys(BUGS, NEAR), most=4))
def test_a_planted_bug_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    # Given the real code with one bug
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    monkeypatch.setattr(file, "desk", planted(bug, tmp_path))
    # When histories are tried, then one of them breaks the guarantee
    with pytest.raises(Found) as found:
        histories(tmp_path, HISTORIES_PER_BUG, SEED, recorded(TABLE, bug))
    print(found.value)
    assert found.value.__cause__ is not None
    judge(TABLE, bug, failure(found.value.__cause__), broken(found.value) or noted())
