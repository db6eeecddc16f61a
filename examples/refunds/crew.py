"""The processes of a play: bank, nodes and workers, started, killed and replaced."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple, Self

from .settings import Settings

#: Modules are found there as they are here.
_PATH = os.pathsep.join(place or str(Path.cwd()) for place in sys.path)


class Strike(NamedTuple):
    """Somebody was killed."""

    who: str
    when: float


class Crew:
    """A context manager that leaves no process behind. Call it from one thread that stays: where
    the kernel can be asked to, it ends the processes with the thread that started them."""

    def __init__(self, known: Settings, log: Path) -> None:
        self.known = known
        #: What they write to standard error.
        self.log = log
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._ports: dict[str, str] = {}
        self.strikes: list[Strike] = []
        #: Who was started, and hasn't said yet that it is ready.
        self._new: list[str] = []
        self._start("bank", "bank")
        self.ready()
        self.known = known._replace(bank=f"http://127.0.0.1:{self._ports.pop('bank')}")

    def node(self, name: str) -> None:
        """Start a node; one of the same name comes back to its port."""
        self._start(name, "node", self._ports.get(name, "0"))

    def worker(self, name: str) -> None:
        """Start a worker."""
        self._start(name, "worker", name)

    def _start(self, name: str, module: str, *args: str) -> None:
        command = [sys.executable, "-m", f"{__package__}.{module}", *args]
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with self.log.open("a") as log:
            self._running[name] = subprocess.Popen(
                command,
                env={**os.environ, **self.known.environment(), "PYTHONPATH": _PATH},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._new.append(name)

    def ready(self) -> None:
        """Wait until all that were started have said so; those that listen say where."""
        while self._new:
            name = self._new.pop()
            process = self._running[name]
            assert process.stdout is not None
            if not (line := process.stdout.readline().strip()):
                raise RuntimeError(f"{name} ended with {process.wait()}:\n{self.log.read_text()}")
            if line.isdecimal():
                self._ports[name] = line

    def nodes(self) -> list[str]:
        """Where the nodes listen, those too that are dead just now."""
        return [f"http://127.0.0.1:{port}" for port in [*self._ports.values()]]

    def kill(self, name: str) -> None:
        """End it by SIGKILL, in the middle of whatever it does."""
        self.strikes.append(Strike(name, time.monotonic()))
        self._end(self._running.pop(name))
        self._new = [one for one in self._new if one != name]

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            with contextlib.suppress(OSError):
                self._end(process)
