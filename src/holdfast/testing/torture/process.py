"""A process under torture: it works turn after turn until it is told to end."""

from __future__ import annotations

import faulthandler
import random
from pathlib import Path
from typing import Any

from ..faces import FACES
from ..faults.stage import Stage
from ..histories import Recorder

#: A process whose parent has died ends itself, after this many seconds at the latest.
LIFE_S = 3600.0


class Process:
    """One of them. Its name is unique in the run, also among those who replace the dead."""

    def __init__(self, stage: Stage, name: str, face: str, options: Any, **terms: Any) -> None:
        faulthandler.dump_traceback_later(LIFE_S, exit=True)  # later than other subjects
        self._stage = stage
        self._face = FACES[face]
        self._name = name
        self._dice = random.Random(f"{options.seed} {name}")
        self._folder = Path(options.folder)
        self._client = self._face.client(options.store, label=name, **terms)
        # Last, as its file tells that all is there that work needs.
        self._recorder = Recorder(self._folder / f"{name}.jsonl", name)

    def live(self) -> None:
        """Work until told to end."""
        self._face.run(self.run, LIFE_S)

    async def run(self) -> None:
        """Say that it is ready, and work until told to end."""
        self._stage.say("ready")
        await self.work()
        await self._client.close()
        self._recorder.bye()
        self._stage.say("bye")

    async def work(self) -> None:
        """Turn after turn."""
        while not self.told_to_end():
            await self.turn()

    async def turn(self) -> None:
        """One of them, unless ``work`` is something else."""

    def told_to_end(self) -> bool:
        """Has it been told to end?"""
        try:
            told = self._stage.hear(0.0)
        except TimeoutError:
            return False
        self.told(told)
        return told in ("end", None)

    def told(self, what: Any) -> None:
        """It was told something."""
