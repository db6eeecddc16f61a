"""A wall clock that a test steps, for the servers that the test starts::

    with clock.worn():
        server = new_redis()  # or new_postgres(), new_mariadb(): any `Program`
    clock.step(-3600)

Only the wall clock of these servers moves (`clock.c`, by LD_PRELOAD). Their monotonic clock, the
clocks of the test and those of other servers do not. A server keeps its clock over a restart.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import platform
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from holdfast.testing.surroundings import surroundings

from . import process
from .process import need

_SOURCE = Path(__file__).with_name("clock.c")
_OFFSET = struct.Struct("=d")
SECOND_S, HOUR_S, DECADE_S = 1.0, 3_600.0, 10 * 365.25 * 86_400.0
#: Seconds by which a test steps a clock, in both directions.
STEPS_S = tuple(sign * step for step in (SECOND_S, HOUR_S, DECADE_S) for sign in (1, -1))


@functools.cache
def _shim() -> bytes:
    """The library that is compiled from `clock.c`. Without a compiler: skipped, or failed in CI."""
    if platform.system() != "Linux":
        pytest.skip("a server's clock is stepped by LD_PRELOAD, on Linux only")
    compiler = need("cc", "gcc", "clang", "tcc")
    with tempfile.TemporaryDirectory(prefix="holdfast-clock-") as folder:
        library = Path(folder, "clock.so")
        options = ["-shared", "-fPIC", "-O2", "-nostdlib", "-fno-builtin", "-o", str(library)]
        subprocess.run([compiler, *options, str(_SOURCE)], check=True, env=surroundings())
        return library.read_bytes()


class Clock:
    """The wall clock of the servers that are started inside `worn`."""

    def __init__(self) -> None:
        # A server can run as another user; that user must be able to read these files.
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-clock-"))
        self._folder.chmod(0o755)
        library, offset = self._folder / "clock.so", self._folder / "offset"
        library.write_bytes(_shim())
        offset.write_bytes(_OFFSET.pack(0.0))
        for file in (library, offset):
            file.chmod(0o644)
        with offset.open("r+b") as file_of_offset:
            self._shared = mmap.mmap(file_of_offset.fileno(), _OFFSET.size)
        self._environment = {"LD_PRELOAD": str(library), "HOLDFAST_CLOCK": str(offset)}

    @property
    def ahead(self) -> float:
        """Seconds by which this clock is ahead of the machine's clock."""
        return float(_OFFSET.unpack_from(self._shared)[0])

    def set(self, ahead: float) -> None:
        """Set the clock ``ahead`` seconds ahead of the machine's clock."""
        self._shared[:] = _OFFSET.pack(ahead)

    def step(self, seconds: float) -> None:
        self.set(self.ahead + seconds)

    def slew(self, seconds: float, over: float, pause: float = 0.01) -> None:
        """Set the clock forward or back in small steps during ``over`` seconds, then return."""
        begun, before = time.monotonic(), self.ahead
        while (passed := time.monotonic() - begun) < over:
            self.set(before + seconds * passed / over)
            time.sleep(min(pause, over - passed))
        self.set(before + seconds)

    @contextlib.contextmanager
    def worn(self) -> Iterator[Self]:
        """Give this clock to the servers that are made in this block, for their whole life."""
        before = dict(process.ENVIRONMENT)
        process.ENVIRONMENT.update(self._environment)
        try:
            yield self
        finally:
            process.ENVIRONMENT.clear()
            process.ENVIRONMENT.update(before)

    def close(self) -> None:
        """Remove the files; servers that still run keep the memory that they have mapped."""
        self._shared.close()
        shutil.rmtree(self._folder, ignore_errors=True)
