"""``holdfast queue retry`` and ``purge``: retry dead letters, and remove jobs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator

from ...core.queue import mending
from ...core.queue.model import JobState
from ...core.queue.ports import queues_of
from ...runtime.blocking import run_sync
from ...sync import Client
from .. import codes, origin
from ..progress import Progress
from ..text import count, say, visible

#: The exit status if nothing was changed: no job matched, or the user answered no.
NOT_DONE = 1
#: Maximum number of jobs that are read for a message about ids that aren't dead letters.
LOOK_MAX = 1000


def retry(options: argparse.Namespace) -> int:
    """Retry dead letters; return 0 if at least one is retried."""
    if bool(options.ids) == options.all:
        say("give either the ids that `holdfast queue dead` prints, or --all")
        return codes.USAGE
    with Client(options.url) as client:
        origin.tell(options, client.url)
        queues = queues_of(client._ctx.store)
        name = options.name

        with _progress("{} jobs retried") as progress:
            done = run_sync(mending.revive(queues, name, options.ids or None, progress.tell))
        if not done:
            return _told(_none(client, options), 0)
    words = "is" if done == 1 else "are"
    return _told(f"{visible(name)!r}: {count(done, 'dead letter')} {words} retried", done)


def _none(client: Client, options: argparse.Namespace) -> str:
    """Return the message for a command that found no dead letter to retry."""
    name = visible(options.name)
    if not options.ids:
        return f"{name!r} has no dead letters"
    stands = {one.id: one.state for one in client.queue(options.name).jobs(limit=LOOK_MAX)}
    words = [
        f"{visible(one)!r}" + (f" (it is {stands[one]})" if one in stands else "")
        for one in options.ids
    ]
    return f"{name!r}: no dead letter has the id {', '.join(words)}"


def purge(options: argparse.Namespace) -> int:
    """Ask the user, then remove jobs permanently; return 0 if at least one was removed."""
    with Client(options.url) as client:
        origin.tell(options, client.url)
        queues = queues_of(client._ctx.store)
        name, state = options.name, JobState(options.state) if options.state else None
        if not options.yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                say(f"without a terminal, purging {visible(name)!r} needs --yes")
                return codes.USAGE
            if not _agreed(client, options):
                say("nothing was changed")
                return NOT_DONE

        with _progress("{} jobs removed") as progress:
            done = run_sync(mending.purge(queues, name, state, options.ids or None, progress.tell))
    return _told(f"{visible(name)!r}: {count(done, 'job')} removed", done)


@contextlib.contextmanager
def _progress(words: str) -> Generator[Progress, None, None]:
    progress = Progress(words)
    try:
        yield progress
    finally:
        progress.over()


def _told(text: str, done: int) -> int:
    print(text)
    return 0 if done else NOT_DONE


def _agreed(client: Client, options: argparse.Namespace) -> bool:
    record = client.queue(options.name).stats()
    stands = f"{record.waiting} waiting, {record.taken} taken, {record.dead} dead"
    if options.ids:
        what = f"these {len(options.ids)}" if len(options.ids) > 1 else "this one"
    else:
        what = f"all {options.state} jobs" if options.state else "all jobs but the taken ones"
    print(
        f"{visible(options.name)!r} has {stands}.",
        "Removed jobs can't be restored.",
        f"Remove {what}? [y/N] ",
        sep="\n",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")
