"""A file that refuses writes with an older fence."""

from __future__ import annotations

import os
from pathlib import Path

from ..core import checks
from ..errors import ConfigError
from .blocking import desk, files
from .fence import Fence, number, refusal

#: Seconds that a call waits for another process that is in the middle of its own.
TIMEOUT_S = 10.0


class FencedFile:
    r"""A guarded file: who comes with a smaller fence than one that it has accepted is refused.

    >>> import tempfile
    >>> ledger = FencedFile(tempfile.mkdtemp() + "/ledger")
    >>> ledger.append(7, "paid 42\n")      # better: ledger.append(hold, ...)
    >>> ledger.append(6, "paid 42\n")
    Traceback (most recent call last):
    holdfast.errors.FenceRejected: ... refused fence 6: it has accepted fence 7. ...
    >>> ledger.read(), ledger.fence()
    (b'paid 42\n', 7)

    Guarantee, as long as all who write go through a guard on this machine:

    * The check and the write are one step for every other process and thread. An equal fence is
      accepted, because one holder writes many times.
    * Once anything of a write can be seen, smaller fences are refused, whatever crashes.
    * ``append`` is whole or absent. What a killed process left torn is invisible to ``read`` and
      is cut off by the next writer; one that was complete stays, though its writer was never
      told. ``replace`` leaves the old or the new contents, never a mixture, and keeps mode and
      (as far as allowed) owner.
    * With ``durable`` (the default) what was acknowledged survives a power failure: two ``fsync``
      for an append, three for a replacement. Without, it survives only the death of the process.

    The fence is kept in ``PATH.fence`` beside the file (text; see ``holdfast/fenced/note.py``):
    back both up together. Deleting it forgets the fence, which is what to do, with all writers
    stopped, when a name moves to another store whose fences are smaller. A file that exists
    already may be guarded from now on.

    ``path`` is text, bytes or a ``Path``; links are followed once, when the object is made, so
    that all ways to a file lead to one sidecar. Hard links do not: use one name. ``timeout`` is
    how many seconds a call waits for others that are in the middle of theirs (None: for ever).
    The kernel frees the file of a process that died, but waits for a stopped one.

    Use it from any thread, and from both sides of a fork: it holds nothing open between calls.
    Under asyncio: ``await asyncio.to_thread(ledger.append, hold, data)``; a write whose await is
    cancelled is still carried out. Not for signal handlers. On a network file system it is as
    good as that system's ``flock``.

    Errors, all before anything is written: ``FenceRejected``; ``LockLost`` or ``NotHeld`` from the
    hold; ``NotAcquired`` when ``timeout`` has ended; ``ConfigError`` for a fence or path that is
    none, or a damaged sidecar. ``OSError`` (a full disk, no permission) keeps nothing of the
    write, but the fence may have moved on.
    """

    __slots__ = ("_durable", "_place", "_timeout")

    def __init__(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        durable: bool = True,
        timeout: float | None = TIMEOUT_S,
    ) -> None:
        try:
            self._place = files.place(os.fsdecode(path))
        except TypeError:
            kind = type(path).__name__
            raise ConfigError(f"a path must be text, bytes or a Path, not {kind}") from None
        self._durable = bool(durable)
        self._timeout = checks.wait(True, timeout)

    @property
    def path(self) -> Path:
        """Where the file is, with links resolved."""
        return self._place.data

    def append(self, fence: Fence, data: bytes | str) -> None:
        """Add ``data`` at the end, all of it or nothing; text as UTF-8, no line end is added.

        Raises ``FenceRejected`` if a later holder was here; see the class for the rest.
        """
        payload = _payload(data)
        number(fence)
        with desk.writing(self._place, self._timeout, self._durable) as ours:
            ours.append(self._admitted(ours, fence), payload)

    def replace(self, fence: Fence, data: bytes | str) -> None:
        """Make ``data`` the whole contents, at once for every reader; text as UTF-8.

        Raises ``FenceRejected`` if a later holder was here; see the class for the rest.
        """
        payload = _payload(data)
        number(fence)
        with desk.writing(self._place, self._timeout, self._durable) as ours:
            ours.replace(self._admitted(ours, fence), payload)

    def read(self) -> bytes:
        """The contents without a torn end. It needs no right to write, and changes nothing.

        Raises ``FileNotFoundError`` if there is no file, ``NotAcquired`` when ``timeout`` has
        ended.
        """
        return desk.read(self._place, self._timeout)

    def fence(self) -> int:
        """The greatest fence accepted so far; 0 if none.

        It may be that of a write that failed or was cut short: from then on a smaller one is
        refused, and that is all it says.
        """
        return desk.greatest(self._place, self._timeout)

    def _admitted(self, ours: desk.Desk, fence: Fence) -> int:
        """The fence, if it may write. A hold is asked again, because we may have waited long."""
        mine = number(fence)
        if mine < ours.note.fence:
            raise refusal(f"the file {str(self.path)!r}", mine, ours.note.fence)
        return mine

    def __repr__(self) -> str:
        return f"FencedFile({str(self.path)!r})"


def _payload(data: object) -> bytes:
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError:
            raise ConfigError(
                "the text that is to be written has a lone surrogate, which UTF-8 can't write; "
                "give bytes (os.fsencode for a text of the system)"
            ) from None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise ConfigError(f"what is written must be bytes or text, not {type(data).__name__}")
