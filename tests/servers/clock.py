"""A wall clock that a test steps, for the servers that it starts::

    with clock.worn():
        server = new_redis()  # or new_postgres(), new_mariadb(): any `Program`
    clock.step(-3600)

Only the server's wall clock moves (`clock.c`, by LD_PRELOAD); its monotonic clock, the clocks of
the test and those of other servers stay. A server keeps its clock when it is started again.
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
#: How far a test steps a clock, in both directions.
STEPS_S = tuple(sign * step for step in (SECOND_S, HOUR_S, DECADE_S) for sign in (1, -1))


@functools.cache
def _shim() -> bytes:
    """The library that `clock.c` becomes. Without a compiler: skipped, or failed in CI."""
    if platform.system() != "Linux":
        pytest.skip("a server's clock is stepped by LD_PRELOAD, on Linux only")
    compiler = need("cc", "gcc", "clang", "tcc")
    with tempfile.TemporaryDirectory(prefix="holdfast-clock-") as folder:
        library = Path(folder, "clock.so")
        subprocess.run(
            [
                *(compiler, "-shared", "-fPIC", "-O2", "-nostdlib", "-fno-builtin"),
                *("-o", str(library), str(_SOURCE)),
            ],
            check=True,
            env=surroundings(),
        )
        return library.read_bytes()


class Clock:
    """The wall clock of the servers that are started while it is `worn`."""

    def __init__(self) -> None:
        # A server may run as another user, who must be able to read what lies here.
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
        """By how many seconds it differs from the machine's clock."""
        return float(_OFFSET.unpack_from(self._shared)[0])

    def set(self, ahead: float) -> None:
        """Let it differ from the machine's clock by ``ahead`` seconds, from now on."""
        self._shared[:] = _OFFSET.pack(ahead)

    def step(self, seconds: float) -> None:
        """Set it forward or back, at once."""
        self.set(self.ahead + seconds)

    def slew(self, seconds: float, over: float, pause: float = 0.01) -> None:
        """Set it forward or back in small steps, within ``over`` seconds; returns after these."""
        begun, before = time.monotonic(), self.ahead
        while (passed := time.monotonic() - begun) < over:
            self.set(before + seconds * passed / over)
            time.sleep(min(pause, over - passed))
        self.set(before + seconds)

    @contextlib.contextmanager
    def worn(self) -> Iterator[Self]:
        """Servers that are made in this block have this clock for all of their life."""
        before = dict(process.ENVIRONMENT)
        process.ENVIRONMENT.update(self._environment)
        try:
            yield self
        finally:
            process.ENVIRONMENT.clear()
            process.ENVIRONMENT.update(before)

    def close(self) -> None:
        """Remove its files; servers that still run keep what they have mapped."""
        self._shared.close()
        shutil.rmtree(self._folder, ignore_errors=True)
