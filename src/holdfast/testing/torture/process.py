"""A process under torture: it does one turn of work after the other, until the message to end."""

from __future__ import annotations

import faulthandler
import random
from pathlib import Path
from typing import Any

from ..faces import FACES
from ..faults.stage import Stage
from ..histories import Recorder

#: Maximum life of a process whose parent has died, seconds.
LIFE_S = 3600.0


class Process:
    """A process of a run. Its name is unique: the replacement of a dead process gets a new name."""

    def __init__(self, stage: Stage, name: str, face: str, options: Any, **terms: Any) -> None:
        faulthandler.dump_traceback_later(LIFE_S, exit=True)  # later than in other subjects
        self._stage = stage
        self._face = FACES[face]
        self._name = name
        self._dice = random.Random(f"{options.seed} {name}")
        self._folder = Path(options.folder)
        self._client = self._face.client(options.store, label=name, **terms)
        # The last statement, because the file of the recorder shows the run that this process is
        # ready.
        self._recorder = Recorder(self._folder / f"{name}.jsonl", name)

    def live(self) -> None:
        """Work until the message to end."""
        self._face.run(self.run, LIFE_S)

    async def run(self) -> None:
        """Report "ready", work until the message to end, and report "bye"."""
        self._stage.say("ready")
        await self.work()
        await self._client.close()
        self._recorder.bye()
        self._stage.say("bye")

    async def work(self) -> None:
        """Execute turns until the message to end."""
        while not self.asked_to_end():
            await self.turn()

    async def turn(self) -> None:
        """Execute one turn. A subclass replaces this method, or ``work``."""

    def asked_to_end(self) -> bool:
        """Read the next message, if any; return True if it is "end" or the parent is gone."""
        try:
            told = self._stage.hear(0.0)
        except TimeoutError:
            return False
        self.told(told)
        return told in ("end", None)

    def told(self, what: Any) -> None:
        """Handle a message."""
