"""A file that refuses writes with an older fence."""

from __future__ import annotations

import os
from pathlib import Path

from ..core import checks
from ..errors import ConfigError
from .blocking import desk, files
from .fence import Fence, number, refusal

#: Seconds that a call waits for a call of another process by default.
TIMEOUT_S = 10.0


class FencedFile:
    r"""A file that refuses writes with a smaller fence than the greatest that it has accepted.

    >>> import tempfile
    >>> ledger = FencedFile(tempfile.mkdtemp() + "/ledger")
    >>> ledger.append(7, "paid 42\n")      # better: ledger.append(hold, ...)
    >>> ledger.append(6, "paid 42\n")
    Traceback (most recent call last):
    holdfast.errors.FenceRejected: ... refused fence 6: it has accepted fence 7. ...
    >>> ledger.read(), ledger.fence()
    (b'paid 42\n', 7)

    Guarantee, as long as all writers use a fenced writer on this machine:

    * The check and the write are one step for every other process and thread. An equal fence is
      accepted, because one holder writes many times.
    * Once any part of a write can be seen, smaller fences are refused, even after a crash.
    * ``append`` is whole or absent. If a process is killed, ``read`` doesn't show its torn append,
      and the next writer cuts it off. A complete append stays, although its writer got no answer.
      ``replace`` leaves the old or the new contents, never a mixture. It keeps the mode and, as
      far as allowed, the owner.
    * With ``durable`` (the default) an acknowledged write survives a power failure: two ``fsync``
      for an append, three for a replacement. Without ``durable``, it survives only the death of
      the process.

    The fence is kept in ``PATH.fence``, the *sidecar*, in the same folder (text; see
    ``holdfast/fenced/note.py``): back up both files together. To forget the fence, stop all writers
    and delete the sidecar. Do that when a name moves to another store whose fences are smaller. An
    existing file may become fenced at any time.

    ``path`` is text, bytes or a ``Path``. Symbolic links are followed once, when the object is
    made, so that they all lead to one sidecar. Two hard links have two sidecars: use only one name.
    ``timeout`` is the maximum number of seconds that a call waits for other calls (None: no limit).
    If a process dies during a call, the kernel unlocks the file. If the process is only stopped,
    the file stays locked.

    Use it from any thread, and from both sides of a fork: it holds nothing open between calls.
    Under asyncio: ``await asyncio.to_thread(ledger.append, hold, data)``; a write whose await is
    cancelled is still carried out. Don't use it in signal handlers. On a network file system it is
    as reliable as that system's ``flock``.

    Errors, all before anything is written: ``FenceRejected``; ``LockLost`` or ``NotHeld`` from the
    hold; ``NotAcquired`` when ``timeout`` has ended; ``ConfigError`` for an invalid fence or path,
    or a damaged sidecar. After an ``OSError`` (a full disk, no permission) nothing of the write is
    kept, but the noted fence may be greater.
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
        """The path of the file, with links resolved."""
        return self._place.data

    def append(self, fence: Fence, data: bytes | str) -> None:
        """Add ``data`` at the end, all of it or nothing; text as UTF-8, no line end is added.

        Raises ``FenceRejected`` if a later holder has written; see the class for other errors.
        """
        payload = _payload(data)
        number(fence)
        with desk.writing(self._place, self._timeout, self._durable) as ours:
            ours.append(self._admitted(ours, fence), payload)

    def replace(self, fence: Fence, data: bytes | str) -> None:
        """Make ``data`` the whole contents, at once for every reader; text as UTF-8.

        Raises ``FenceRejected`` if a later holder has written; see the class for other errors.
        """
        payload = _payload(data)
        number(fence)
        with desk.writing(self._place, self._timeout, self._durable) as ours:
            ours.replace(self._admitted(ours, fence), payload)

    def read(self) -> bytes:
        """Return the contents without a torn end. This needs no write permission.

        Raises ``FileNotFoundError`` if there is no file, ``NotAcquired`` when ``timeout`` has
        ended.
        """
        return desk.read(self._place, self._timeout)

    def fence(self) -> int:
        """Return the greatest fence accepted so far; 0 if none.

        The write with this fence can have failed, or been interrupted. The fence means only that
        smaller fences are refused.
        """
        return desk.greatest(self._place, self._timeout)

    def _admitted(self, ours: desk.Desk, fence: Fence) -> int:
        """Return the fence if it may write. A hold is checked again, because the call may have
        waited for the file."""
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
                "the text has a lone surrogate, which UTF-8 can't encode; "
                "give bytes (os.fsencode for a text of the system)"
            ) from None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise ConfigError(f"the data must be bytes or text, not {type(data).__name__}")
