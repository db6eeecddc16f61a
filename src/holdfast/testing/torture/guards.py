"""The torture of refresh guards: processes that read, change the source, and invalidate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .guard_worker import Work
from .run import Outcome, Run, place


class Options(NamedTuple):
    """The options of a run.

    ``strikes``: the faults of workers, drawn in random order; one about every ``every`` seconds.
    ``first``: see ``Subject``.
    """

    store: str = ""
    seed: int = 0
    seconds: float = 30.0
    processes: int = 4
    folder: str = ""
    first: str = ""
    strikes: tuple[str, ...] = ("kill", "kill", "kill", "stop", "stop")
    every: float = 0.4


def run(options: Options, dies: Callable[[], object] | None = None) -> Outcome:
    """Torture a store and judge it.

    ``dies`` is called once, at half-time; it kills the server and starts it again. Without
    ``folder`` the histories are deleted at the end of the run.
    """
    with place(options.folder) as folder:
        return GuardRun(options, folder, dies).go(options.seconds)


class GuardRun(Run):
    """A run of workers that read through guards."""

    act = "holdfast.testing.torture.guard_worker:work"
    end_s = 60.0

    def __init__(self, options: Options, folder: Path, dies: Callable[[], object] | None) -> None:
        super().__init__(options, folder, dies)
        (folder / "versions").write_bytes(b"")

    def task(self) -> Work:
        """Return the options of every process."""
        return Work(self.store, str(self.folder), self.options.seed)
