"""The three acts: a try, a line, and two accidents. Told while they happen."""

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
from .voice import Mark, Voice, count, ms
from .worker import NAME, Order

SIZE = 9
ROUNDS = 2
#: How long a worker works on an entry, in seconds: long enough to be seen in the picture.
WORK_S = 0.07
#: The lease of all but one hold. Nobody waits for its end.
TTL_S = 30.0
#: The lease of the worker that is frozen: the others have to wait for its end.
SHORT_TTL_S = 1.0
#: An entry of this length takes so long to write that its writer can be killed meanwhile.
LONG_BYTES = 16 << 20
#: So many entries are written by others before the frozen worker is woken.
WAKE_AFTER = 3
_LOOK_S = 0.002

LINE = "Nine workers wait in line"
KILL = "A holder is killed with -9"
FREEZE = "A holder is frozen until its lease is over, then woken"


class Story:
    """One telling: the crew, the store as anybody may look at it, and what was found out."""

    def __init__(self, crew: Crew, client: Client, path: Path, voice: Voice, seed: int) -> None:
        self._crew = crew
        self._client = client
        self._path = path
        self._voice = voice
        self._random = random.Random(seed)
        #: What went otherwise than promised, in words.
        self.wrong: list[str] = []
        #: The fences of killed writers: nobody could tell them whether their entry is whole.
        self.pardoned: list[int] = []
        #: What was measured, for the picture.
        self.facts: list[str] = []

    def tell(self) -> None:
        """All of it."""
        self._crew.wait(What.READY, self._crew.alive(), "the workers start")
        self._try()
        self._line()
        self._kill()
        self._freeze()

    # -- one: a try ------------------------------------------------------------------------------

    def _try(self) -> None:
        crew, voice = self._crew, self._voice
        voice.head(1, "Nine try, nobody waits")
        voice.say(
            f'Each of {SIZE} processes asks once for the lock "{NAME}", and goes on without it if '
            "somebody else has it."
        )
        names = self._shuffled()
        for name in names:
            crew.order(name, Order(wait=False))
        answers = list(self._answers())
        got = [event for event in answers if event.what is What.HELD]
        told = [e for e in answers if e.what is What.BUSY and (e.text, e.fence) == _who(got)]
        if len(got) != 1 or len(told) != SIZE - 1:
            self.wrong.append(f"{len(got)} got the lock at one try, {len(told)} were told who")
        voice.say(
            f"{count(len(got)).capitalize()} got it, {count(len(told))} were told who has it. The "
            f"slowest answer took {ms(max(event.took for event in answers))}."
        )

    def _answers(self) -> Iterator[Event]:
        """What each worker is told, as it comes; the one who got it keeps it until all know."""
        waiting, busy = SIZE, SIZE
        for event in self._crew.listen("nine workers try the lock"):
            if event.what in (What.HELD, What.BUSY):
                got = event.what is What.HELD
                verb, mark = ("got it, as", Mark.GOOD) if got else ("busy: held by", Mark.NO)
                self._voice.say(f"{event.worker}  {verb} {event.text}, fence {event.fence}", mark)
                yield event
                waiting -= 1
                if waiting == 0:
                    for winner in [e for e in self._crew.events if e.what is What.HELD]:
                        self._crew.go(winner.worker)
            busy -= event.what is What.DONE
            if busy == 0:
                return

    # -- two: a line -----------------------------------------------------------------------------

    def _line(self) -> None:
        crew, voice = self._crew, self._voice
        voice.head(2, "Nine wait in line")
        voice.say(
            f"Each writes {ROUNDS} entries into one ledger, with a hold of its own for each. The "
            "new balance is made from the old one, so two at once would spoil it. The fence is a "
            "number that grows with every hold: the ledger refuses a smaller one than it has seen."
        )
        names = self._shuffled()
        crew.note(What.SCENE, text=LINE)
        line = self._line_up(names, Order(rounds=ROUNDS, pause=WORK_S, gate=True), ROUNDS)
        voice.say(f"{line[0]} has the lock. Behind it, in this order: {' '.join(line[1:])}")
        crew.go(line[0])
        served = [e.worker for e in self._entries(SIZE) if e.what is What.WROTE]
        in_turn = served[:SIZE] == line
        if not in_turn or len(served) != SIZE * ROUNDS:
            self.wrong.append(f"in line stood {' '.join(line)}; served were {' '.join(served)}")
        scene = scenes(crew.events)[-1]
        passed = scene.hand_offs()
        voice.say(
            f"{len(served)} entries in {scene.end - scene.start:.1f} s, everybody "
            f"{'in turn' if in_turn else 'OUT OF TURN'}. From one worker to the next the lock "
            f"took {ms(median(passed))} (median; the slowest {ms(max(passed))}).",
            Mark.GOOD if in_turn else Mark.WRONG,
        )
        self.facts.append(f"from one holder to the next: {ms(median(passed))} (median)")

    # -- three: two accidents ----------------------------------------------------------------------

    def _kill(self) -> None:
        crew, voice = self._crew, self._voice
        voice.head(3, "A holder is killed, another one frozen")
        victim, *others = names = self._shuffled()
        crew.note(What.SCENE, text=KILL)
        self._line_up(names, Order(ttl=TTL_S, gate=True, bytes=LONG_BYTES))
        voice.say(
            f"{victim} has the lock, with a lease of {TTL_S:g} s, and starts to write an entry of "
            f"{_mib(LONG_BYTES)}. {count(len(others)).capitalize()} wait behind it."
        )
        self.pardoned.append(self._held(victim).fence)
        before = self._size()
        crew.go(victim)
        self._until(lambda: self._size() > before, f"{victim} writes its long entry")
        killed = crew.kill(victim)
        torn = self._size() - before
        heir = self._next_holder()
        took = heir.at - killed.at
        voice.say(
            f"kill -9 {victim}, process {crew.members[victim].pid}, in the middle of its write: "
            f"{_mib(torn)} of the entry are in the file",
            Mark.BLOW,
        )
        voice.say(
            f"{heir.worker} has the lock {ms(took)} later. The kernel tells of a death at once, so "
            f"nobody waits for the end of the lease. {heir.worker} cuts the torn entry off and "
            "writes its own:",
            Mark.GOOD,
        )
        self.facts.append(f"after kill -9: {ms(took)}")
        list(self._entries(len(others)))

    def _freeze(self) -> None:
        crew, voice = self._crew, self._voice
        frozen, *others = names = self._shuffled()
        crew.note(What.SCENE, text=FREEZE)
        self._line_up(names, Order(ttl=SHORT_TTL_S, gate=True, blind=True))
        stale = self._held(frozen).fence
        crew.stop(frozen)
        looked = boottime()
        holder = self._client.inspect(NAME, exact=True)[0].holders[0]
        voice.say(
            f"{frozen} takes the lock with a lease of {SHORT_TTL_S:g} s and the fence {stale}, "
            "checks that it holds it, and is frozen (SIGSTOP) just before it writes.",
            Mark.BLOW,
        )
        expired = crew.note(What.EXPIRED, frozen, at=looked + holder.expires_in)
        heir = self._next_holder()
        took = heir.at - expired.at
        voice.say(
            f"Its lease ends, and {ms(took)} later {heir.worker} has the lock. {frozen} knows "
            "nothing of that.",
            Mark.GOOD,
        )
        self.facts.append(f"after the end of a lease: {ms(took)}")
        written, refused = 0, 0
        for event in self._entries(len(others) + 2):
            written += event.what is What.WROTE
            refused += event.what is What.REJECTED
            if written == WAKE_AFTER and event.what is What.WROTE:
                voice.say(f"{frozen} is woken (SIGCONT) and goes on with its write.", Mark.BLOW)
                crew.resume(frozen)
                crew.go(frozen)
            if event.what is What.REJECTED:
                voice.say(f"Refused: {event.text}", Mark.GOOD)
                crew.order(frozen, Order(pause=WORK_S))
        if refused != 1:
            self.wrong.append(f"the write of {frozen} with the old fence {stale} was not refused")
        voice.say(f"{frozen} took the lock again, last in line, and then its entry was accepted.")

    # -- the parts ---------------------------------------------------------------------------------

    def _shuffled(self) -> list[str]:
        names = self._crew.alive()
        self._random.shuffle(names)
        return names

    def _line_up(self, names: list[str], first: Order, rounds: int = 1) -> list[str]:
        """Have the first of these hold the lock and the others wait; who stands where."""
        crew = self._crew
        crew.order(names[0], first)
        crew.wait(What.WRITING, names[:1], f"{names[0]} takes the lock")
        for name in names[1:]:
            crew.order(name, Order(rounds=rounds, pause=WORK_S))
        line: list[str] = []

        def complete() -> bool:
            found = self._client.inspect(NAME, exact=True)
            line[:] = [c.owner.rpartition(":")[2] for c in found[0].claims] if found else []
            return len(line) == len(names)

        self._until(complete, f"{len(names) - 1} workers get in line")
        return line

    def _entries(self, orders: int) -> Iterator[Event]:
        """What becomes of the entries, told as it happens, until so many orders are done."""
        waited = {e.worker: e.took for e in self._crew.events if e.what is What.HELD}
        self._voice.columns()
        for event in self._crew.listen("the workers write their entries"):
            if event.what is What.HELD:
                waited[event.worker] = event.took
            elif event.what is What.WRITING:
                self._crew.go(event.worker)
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
        """The latest hold of this worker."""
        events = reversed(self._crew.events)
        return next(e for e in events if e.what is What.HELD and e.worker == name)

    def _size(self) -> int:
        return self._path.stat().st_size

    def _until(self, true: Callable[[], bool], doing: str) -> None:
        end = boottime() + PATIENCE_S
        while not true():
            if boottime() > end:
                raise StoryError(f"nothing came of it for {PATIENCE_S:g} s: {doing}")
            time.sleep(_LOOK_S)


def _who(got: list[Event]) -> tuple[str, int]:
    return (got[0].text, got[0].fence) if got else ("", 0)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
