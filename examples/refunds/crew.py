"""Starts, kills and replaces the processes of a run: the bank, nodes and workers."""

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

#: PYTHONPATH for the processes, so that they find the same modules as this process.
_PATH = os.pathsep.join(place or str(Path.cwd()) for place in sys.path)


class Strike(NamedTuple):
    """The kill of a process (or of the store's server), and its time."""

    who: str
    when: float


class Crew:
    """The running processes. A context manager; its end ends all of them.

    Call it from one thread that lives as long as the run: on Linux, the kernel kills the processes
    when the thread that started them ends."""

    def __init__(self, known: Settings, log: Path) -> None:
        self.known = known
        #: The file for the processes' stderr.
        self.log = log
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._ports: dict[str, str] = {}
        self.strikes: list[Strike] = []
        #: The names of started processes that have not reported yet that they are ready.
        self._new: list[str] = []
        self._start("bank", "bank")
        self.ready()
        self.known = known._replace(bank=f"http://127.0.0.1:{self._ports.pop('bank')}")

    def node(self, name: str) -> None:
        """Start a node. A node that replaces a killed one gets the same name and port."""
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
        """Wait until each started process has printed a line; it contains the port, if any."""
        while self._new:
            name = self._new.pop()
            process = self._running[name]
            assert process.stdout is not None
            if not (line := process.stdout.readline().strip()):
                raise RuntimeError(f"{name} ended with {process.wait()}:\n{self.log.read_text()}")
            if line.isdecimal():
                self._ports[name] = line

    def nodes(self) -> list[str]:
        """Return the URLs of all nodes, including nodes that are dead now."""
        return [f"http://127.0.0.1:{port}" for port in [*self._ports.values()]]

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, at any point of its work."""
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
