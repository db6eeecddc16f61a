"""The sidecar of a fenced file: its content, and the reasons why it survives a crash.

The sidecar of ``ledger`` is ``ledger.fence``. holdfast never renames or deletes it. So a kernel
lock on it excludes all other writers even when the file itself is replaced. It has three pages::

    page 0, 1   notes, written in turn: number ``turn`` goes to page ``turn % 2``
    page 2      a mark: "the write announced by note number N is settled"

A note is written *before* the write that it announces. It contains the greatest fence accepted, and
for an append its start, length and checksum. So

* a fence is noted before any part of its write can be seen. After a crash between the two, older
  writers are refused although the newer holder wrote nothing, which is safe. With the other order,
  an older holder could write after a newer one;
* at most one of the two notes is being written to the disk. If a crash tears this note, its
  checksum fails and the other note counts; the write that the torn note announces had not begun;
* after a crash the note shows if the end of the file is a complete append. A torn append is cut
  off. Only the bytes of an announced and unsettled append are ever changed, because a person may
  have edited the file by hand.

The mark isn't synced, so it can be lost; then the checksum shows if the append is complete.
Everything is text, so that ``cat`` shows it. The sidecar deliberately doesn't contain the data: a
second copy of each append would double the work, only to complete an append that was never
acknowledged.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

#: Bytes of a page. A kernel or drive writes a page as a whole; if not, the checksum shows it.
PAGE = 4096
#: The offset of the mark.
MARK_AT = 2 * PAGE
#: Bytes of a whole sidecar.
IMAGE_BYTES = 3 * PAGE

_NOTE = re.compile(
    rb"holdfast-fence 1 turn=(\d+) fence=(\d+) at=(\d+) size=(\d+) crc=(\d+) sum=(\d+)\n"
)
_MARK = re.compile(rb"holdfast-fence 1 settled=(\d+) sum=(\d+)\n")


class Note(NamedTuple):
    """One note: the greatest fence accepted, and the append that it announces.

    ``at``, ``size``, ``crc``: the start, length and checksum of the append. With ``size`` 0 the
    note announces a replacement of the whole file, or no write at all.
    """

    turn: int = 0
    fence: int = 0
    at: int = 0
    size: int = 0
    crc: int = 0

    @property
    def offset(self) -> int:
        """The offset of the note in the sidecar."""
        return self.turn % 2 * PAGE

    def page(self) -> bytes:
        """Return the bytes of the note."""
        turn, fence, at, size, crc = self
        return _page(b"turn=%d fence=%d at=%d size=%d crc=%d" % (turn, fence, at, size, crc))

    def mark(self) -> bytes:
        """Return the bytes of the mark: the write that this note announces is settled."""
        return _page(b"settled=%d" % self.turn)

    def ends_within(self, length: int) -> bool:
        """Return True if a file of this length can end with a torn append, which needs a repair.

        >>> note = Note(at=10, size=5)
        >>> [note.ends_within(length) for length in (9, 10, 11, 15, 16)]
        [False, False, True, True, False]
        """
        return self.at < length <= self.at + self.size


def read(image: bytes) -> tuple[Note, bool]:
    """Return the latest note of a sidecar, and True if the note's write is settled. ``ValueError``
    if the sidecar is damaged."""
    if unborn(image):
        return Note(), True
    if len(image) != IMAGE_BYTES:
        raise ValueError(f"it has {len(image)} bytes, not {IMAGE_BYTES}")
    found = [Note(*fields) for at in (0, PAGE) if (fields := _fields(_NOTE, image[at : at + PAGE]))]
    if not found:
        raise ValueError("neither of its two notes is whole")
    note = max(found)
    return note, _fields(_MARK, image[MARK_AT:]) == [note.turn]


def unborn(image: bytes) -> bool:
    """Return True if the creation of the sidecar was interrupted.

    Then it has only a part of ``BLANK``: no note is written before all of ``BLANK`` is synced."""
    written = image.rstrip(b"\0")
    return _BLANK_LINE.startswith(written) and (
        len(image) < IMAGE_BYTES or len(written) < len(_BLANK_LINE)
    )


def _page(text: bytes) -> bytes:
    line = b"holdfast-fence 1 " + text
    return (line + b" sum=%d\n" % zlib.crc32(line)).ljust(PAGE, b"\0")


def _fields(kind: re.Pattern[bytes], page: bytes) -> list[int]:
    """Return the numbers of a page, without its checksum; empty if it isn't whole."""
    found = kind.match(page)
    if not found:
        return []
    *fields, total = map(int, found.groups())
    body = page[: found.start(kind.groups) - len(b" sum=")]
    return fields if zlib.crc32(body) == total else []


#: A new sidecar: nothing accepted yet.
BLANK = Note().page().ljust(IMAGE_BYTES, b"\0")
_BLANK_LINE = BLANK.rstrip(b"\0")
