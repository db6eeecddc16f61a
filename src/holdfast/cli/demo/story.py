"""The three acts of the demo: workers in line, a killed holder, a stopped ("frozen") holder."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from ...runtime.blocking import boottime
from ...sync import Client
from .crew import PATIENCE_S, Crew, StoryError
from .history import Event, What, scenes
from .voice import Voice, ms
from .worker import NAME, Order

SIZE = 9
ROUNDS = 2
#: Seconds of work on an entry: long enough to be visible in the timeline.
WORK_S = 0.07
#: The lease of the frozen worker in seconds. It is short, because the others wait for its end.
SHORT_TTL_S = 1.0
#: The length of an entry whose write takes long enough that its writer can be killed meanwhile.
LONG_BYTES = 16 << 20
#: The number of entries that other workers write before the frozen worker continues.
WAKE_AFTER = 3
_LOOK_S = 0.002


class Story:
    """One run of the demo: the crew, a client of the store, and the faults."""

    def __init__(self, crew: Crew, client: Client, path: Path, voice: Voice) -> None:
        self._crew = crew
        self._client = client
        self._path = path
        self._voice = voice
        #: A text for each violation of a promise.
        self.wrong: list[str] = []
        #: The fences of killed writers. The audit accepts their entries, and accepts that they are
        #: missing.
        self.pardoned: list[int] = []

    def tell(self) -> None:
        """Run all acts."""
        self._crew.wait(What.READY, self._crew.alive(), "the workers start")
        self._line()
        self._kill()
        self._freeze()

    def _line(self) -> None:
        crew, voice = self._crew, self._voice
        voice.head("1  Nine wait in line")
        voice.say(
            f"Each writes {ROUNDS} entries into one ledger, with a new hold for each entry. A new "
            "balance is computed from the last one, so two writers at the same time would corrupt "
            "it. The fence is a number that grows with each hold: the ledger refuses older ones."
        )
        line = self._line_up("Nine workers wait in line", Order(ROUNDS, pause=WORK_S, gate=True))
        voice.say(f"{line[0]} holds the lock. Behind it, in this order: {' '.join(line[1:])}")
        crew.send(line[0])
        served = [e.worker for e in self._entries(SIZE) if e.what is What.WROTE]
        in_turn = served[:SIZE] == line and len(served) == SIZE * ROUNDS
        if not in_turn:
            self.wrong.append(f"the line was {' '.join(line)}; the holders were {' '.join(served)}")
        scene = scenes(crew.events)[-1]
        passed = scene.hand_offs()
        voice.say(
            f"{len(served)} entries in {scene.end - scene.start:.1f} s, all workers "
            f"{'in turn' if in_turn else 'OUT OF TURN'}. A hand-off from one worker to the next "
            f"took {ms(median(passed))} (median; the slowest {ms(max(passed))}).",
            "+" if in_turn else "!",
        )

    def _kill(self) -> None:
        crew, voice = self._crew, self._voice
        voice.head("2  A holder is killed")
        title = "A holder is killed with -9"
        victim, *others = self._line_up(title, Order(gate=True, bytes=LONG_BYTES))
        voice.say(
            f"{victim} holds the lock, with a lease of {Order().ttl:g} s, and starts to write an "
            f"entry of {_mib(LONG_BYTES)}. {len(others)} workers wait behind it."
        )
        self.pardoned.append(self._held(victim).fence)
        before = self._size()
        crew.send(victim)
        self._until(lambda: self._size() > before, f"{victim} writes its long entry")
        killed = crew.kill(victim)
        torn = self._size() - before
        heir = self._next_holder()
        voice.say(
            f"kill -9 {victim}, process {crew.pid(victim)}, in the middle of its write: "
            f"{_mib(torn)} of the entry are in the file",
            "x",
        )
        voice.say(
            f"{heir.worker} holds the lock {ms(heir.at - killed.at)} later. The kernel reports a "
            f"death immediately, so no worker waits for the end of the lease. {heir.worker} "
            "removes the torn entry and writes its own:",
            "+",
        )
        list(self._entries(len(others)))

    def _freeze(self) -> None:
        crew, voice = self._crew, self._voice
        voice.head("3  A holder is frozen")
        title = "A holder is frozen until its lease has expired, then continued"
        frozen, *others = self._line_up(title, Order(ttl=SHORT_TTL_S, gate=True, blind=True))
        stale = self._held(frozen).fence
        crew.stop(frozen)
        looked = boottime()
        holder = self._client.inspect(NAME, exact=True)[0].holders[0]
        voice.say(
            f"{frozen} acquires the lock with a lease of {SHORT_TTL_S:g} s and the fence {stale}, "
            "checks its hold, and is frozen (SIGSTOP) immediately before it writes.",
            "x",
        )
        expired = crew.note(What.EXPIRED, frozen, at=looked + holder.expires_in)
        heir = self._next_holder()
        voice.say(
            f"Its lease ends, and {ms(heir.at - expired.at)} later {heir.worker} holds the lock. "
            f"{frozen} has not noticed this.",
            "+",
        )
        written, refused = 0, 0
        for event in self._entries(len(others) + 2):
            written += event.what is What.WROTE
            refused += event.what is What.REJECTED
            if written == WAKE_AFTER and event.what is What.WROTE:
                voice.say(f"{frozen} is continued (SIGCONT) and does its write.", "x")
                crew.resume(frozen)
                crew.send(frozen)
            if event.what is What.REJECTED:
                voice.say(f"Refused: {event.text}", "+")
                crew.send(frozen, Order(pause=WORK_S))
        if refused != 1:
            self.wrong.append(f"the write of {frozen} with the old fence {stale} was not refused")
        voice.say(f"{frozen} acquired the lock again, last in line, and its entry was accepted.")

    # -- the parts ---------------------------------------------------------------------------------

    def _line_up(self, title: str, first: Order) -> list[str]:
        """Begin a scene: one worker takes the lock, the others wait. Return all names in order."""
        crew = self._crew
        names = crew.alive()
        random.shuffle(names)
        crew.note(What.SCENE, text=title)
        crew.send(names[0], first)
        crew.wait(What.WRITING, names[:1], f"{names[0]} takes the lock")
        for name in names[1:]:
            crew.send(name, Order(first.rounds, pause=WORK_S))
        line: list[str] = []

        def complete() -> bool:
            found = self._client.inspect(NAME, exact=True)
            line[:] = [c.owner.rpartition(":")[2] for c in found[0].claims] if found else []
            return len(line) == len(names)

        self._until(complete, f"{len(names) - 1} workers get in line")
        return line

    def _entries(self, orders: int) -> Iterator[Event]:
        """Print and yield the result of each write, until ``orders`` orders are done."""
        waited = {e.worker: e.took for e in self._crew.events if e.what is What.HELD}
        self._voice.columns()
        for event in self._crew.listen("the workers write their entries"):
            if event.what is What.HELD:
                waited[event.worker] = event.took
            elif event.what is What.WRITING:
                self._crew.send(event.worker)
            elif event.what is What.WROTE:
                self._voice.entry(event, waited[event.worker])
            if event.what in (What.WROTE, What.REJECTED):
                yield event
            orders -= event.what is What.DONE
            if orders == 0:
                return

    def _next_holder(self) -> Event:
        return next(e for e in self._crew.listen("the lock passes on") if e.what is What.HELD)

    def _held(self, name: str) -> Event:
        """Return the latest hold of this worker."""
        events = reversed(self._crew.events)
        return next(e for e in events if e.what is What.HELD and e.worker == name)

    def _size(self) -> int:
        return self._path.stat().st_size

    def _until(self, true: Callable[[], bool], doing: str) -> None:
        end = boottime() + PATIENCE_S
        while not true():
            if boottime() > end:
                raise StoryError(f"not done within {PATIENCE_S:g} s: {doing}")
            time.sleep(_LOOK_S)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
