"""``holdfast queue put``: put jobs from the command line, or from lines of stdin as they arrive."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ...core.queue.model import BATCH_MAX, PAYLOAD_BYTES_MAX
from ...errors import ConfigError
from ...sync import Client
from ...sync.queue import Queue
from .. import codes, origin
from ..progress import Progress
from ..text import count, say, visible

#: Bytes to read at a time.
CHUNK = 1 << 16
#: Maximum bytes of a line: the largest payload, with each byte written as ``\u00xx``.
LINE_MAX = 6 * PAYLOAD_BYTES_MAX + 4096


class Unreadable(ConfigError):
    """The input can't be read, or a job in it is invalid."""


class Misused(ConfigError):
    """The options contradict each other."""


def put(options: argparse.Namespace) -> int:
    """Put the jobs and print how many were new; return 0 if the store has all of them."""
    if options.payloads:
        batches: Iterable[list[bytes]] = [[os.fsencode(one) for one in options.payloads]]
    else:
        if sys.stdin.isatty() and not options.quiet:
            say("type one job per line; end with Ctrl-D")
        batches = _lines(sys.stdin.fileno())
    given = {} if options.dedup_window is None else {"dedup_window": options.dedup_window}
    with Client(options.url) as client:
        origin.tell(options, client.url)
        putting = Putting(client.queue(options.name, **given), options)
        try:
            for batch in batches:
                putting.put(batch)
        except BaseException as wrong:
            putting.progress.over()
            if putting.done:
                say(f"{count(putting.done, 'job')} accepted before the error")
            if not isinstance(wrong, Unreadable | Misused):
                raise
            say(str(wrong))
            return codes.DATA if isinstance(wrong, Unreadable) else codes.USAGE
    putting.progress.over()
    if not (options.quiet or options.ids):
        print(putting.story())
    return 0


class Putting:
    """Puts jobs into a queue, and counts them."""

    def __init__(self, queue: Queue, options: argparse.Namespace) -> None:
        self.queue = queue
        self.options = options
        self.progress = Progress("{} jobs put")
        self.done = 0
        self.duplicates = 0
        self.line = 0

    def put(self, lines: list[bytes]) -> None:
        """Put more jobs; the store accepts each batch as a whole."""
        first = not self.options.payloads
        jobs = []
        for line in lines:
            self.line += 1
            if line or not first:  # an empty line isn't a job; an empty argument is one
                jobs.append(self._job(line))
        if self.options.id is not None and self.done + len(jobs) > 1:
            raise Misused("--id is for one job; with --jobs each job can have an id")
        for start in range(0, len(jobs), BATCH_MAX):
            some = jobs[start : start + BATCH_MAX]
            for receipt in self.queue.put_many(some, group=self.options.group):
                self.done += 1
                self.duplicates += receipt.duplicate
                if self.options.ids:
                    print(visible(receipt.id) + "\tduplicate" * receipt.duplicate)
            self.progress.tell(self.done)
        if self.options.ids:
            sys.stdout.flush()

    def _job(self, line: bytes) -> dict[str, Any]:
        options = self.options
        common = {"delay": options.delay}
        if options.id is not None:
            common["id"] = options.id
        if options.jobs:
            job = self._json(line)
            if not isinstance(job, dict) or "payload" not in job:
                raise Unreadable(f'{self._where()} is not {{"payload": ...}}: {line[:80]!r}')
            return {**common, **job}
        return {**common, "payload": self._json(line) if options.json else _text(line)}

    def _json(self, line: bytes) -> Any:
        try:
            return json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as wrong:
            raise Unreadable(f"{self._where()} is not JSON ({wrong}): {line[:80]!r}") from None

    def _where(self) -> str:
        return f"{'payload' if self.options.payloads else 'line'} {self.line}"

    def story(self) -> str:
        """Return a text with the numbers of accepted jobs and duplicates."""
        accepted = self.done - self.duplicates
        text = f"{visible(self.queue.name)}: accepted {count(accepted, 'job')}"
        dropped = f", dropped {count(self.duplicates, 'duplicate')}" if self.duplicates else ""
        return text + dropped


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse a key that occurs twice, because one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found


def _text(line: bytes) -> str | bytes:
    """Return the line as text if it is UTF-8, else the bytes."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK)
    except OSError as wrong:
        raise Unreadable(f"stdin can't be read: {wrong.strerror}") from None


def _lines(fd: int) -> Iterator[list[bytes]]:
    """Yield lists of complete lines, as they arrive, until the end of the input."""
    rest = b""
    while data := _read(fd):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_MAX:
            raise Unreadable(f"a line is longer than {LINE_MAX} bytes, the limit for a payload")
        if lines:
            yield lines
    if rest:
        yield [rest]
