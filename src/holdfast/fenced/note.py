"""The sidecar of a fenced file: its content, and why a crash can't spoil it.

Beside ``ledger`` lies ``ledger.fence``. It is never renamed or deleted, so that a kernel lock on
it excludes everybody else however often the file itself is replaced. It has three pages::

    page 0, 1   notes, written in turn: number ``turn`` goes to page ``turn % 2``
    page 2      a mark: "the write announced by note number N is settled"

A note is written *before* the write that it announces: the greatest fence accepted, and where an
append will begin, its length and checksum. So

* a fence is noted before anything of its write can be seen. A crash in between refuses older
  writers of a newer holder that wrote nothing, which is right; the other order would let an
  older holder write after a newer one;
* only one of the two notes is ever on its way to the disk. If that one is torn, it fails its
  checksum and the other counts; its write hadn't begun;
* after a crash the note tells whether the end of the file is an append that is complete. A torn
  one is cut off. Nothing else ever is: without a note that announced them, and was not settled,
  no bytes are touched, because somebody may have edited the file by hand.

The mark may be lost (it isn't synced): then the checksum says the same. Everything is text, so
that ``cat`` shows it. Deliberately absent: the data itself; a second copy of each append would
double the work to complete what its writer was never told is done.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

#: Kernels and drives write a page of this many bytes in one piece, or fail its checksum.
PAGE = 4096
#: Where the mark stands.
MARK_AT = 2 * PAGE
#: Bytes of a whole sidecar.
IMAGE_BYTES = 3 * PAGE

_NOTE = re.compile(
    rb"holdfast-fence 1 turn=(\d+) fence=(\d+) at=(\d+) size=(\d+) crc=(\d+) sum=(\d+)\n"
)
_MARK = re.compile(rb"holdfast-fence 1 settled=(\d+) sum=(\d+)\n")


class Note(NamedTuple):
    """One note: the greatest fence accepted, and the append that it announces.

    ``size`` 0 announces no append, but a replacement of the whole file (or nothing at all).
    """

    turn: int = 0
    fence: int = 0
    at: int = 0
    size: int = 0
    crc: int = 0

    @property
    def offset(self) -> int:
        """Where in the sidecar it is written."""
        return self.turn % 2 * PAGE

    def page(self) -> bytes:
        """The note as it is written."""
        turn, fence, at, size, crc = self
        return _page(b"turn=%d fence=%d at=%d size=%d crc=%d" % (turn, fence, at, size, crc))

    def mark(self) -> bytes:
        """The mark that its write is settled."""
        return _page(b"settled=%d" % self.turn)

    def ends_within(self, length: int) -> bool:
        """Could a file of this length end in a piece of the append? Else nothing is to be done.

        >>> note = Note(at=10, size=5)
        >>> [note.ends_within(length) for length in (9, 10, 11, 15, 16)]
        [False, False, True, True, False]
        """
        return self.at < length <= self.at + self.size


def read(image: bytes) -> tuple[Note, bool]:
    """The latest note of a sidecar, and whether its write is settled; ValueError if damaged."""
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
    """Was its making cut short? Any part of ``BLANK`` may be there then, and nothing else: no note
    is written before all of it is synced."""
    written = image.rstrip(b"\0")
    return _BLANK_LINE.startswith(written) and (
        len(image) < IMAGE_BYTES or len(written) < len(_BLANK_LINE)
    )


def _page(text: bytes) -> bytes:
    line = b"holdfast-fence 1 " + text
    return (line + b" sum=%d\n" % zlib.crc32(line)).ljust(PAGE, b"\0")


def _fields(kind: re.Pattern[bytes], page: bytes) -> list[int]:
    """The numbers of a page, without its checksum; empty if it isn't whole."""
    found = kind.match(page)
    if not found:
        return []
    *fields, total = map(int, found.groups())
    body = page[: found.start(kind.groups) - len(b" sum=")]
    return fields if zlib.crc32(body) == total else []


#: A new sidecar: nothing accepted yet.
BLANK = Note().page().ljust(IMAGE_BYTES, b"\0")
_BLANK_LINE = BLANK.rstrip(b"\0")
