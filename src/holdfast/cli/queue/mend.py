"""``holdfast queue retry`` and ``purge``: what people do about jobs by hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from ...core.policy import REQUEST_S
from ...core.queue.model import BATCH_MAX, JobState
from ...core.queue.ports import queues_of
from ...runtime.blocking import run_sync
from ...sync import Client
from .. import codes
from ..progress import Progress
from ..text import count, say, visible

#: Nothing was changed: there was nothing, or the person said no.
NOT_DONE = 1
Some = Callable[[Sequence[str] | None], int]


def retry(options: argparse.Namespace) -> int:
    """Have dead letters tried again; 0 if there were any."""
    if bool(options.ids) == options.all:
        say("say which, by the ids that `holdfast queue dead` shows, or --all, and not both")
        return codes.USAGE
    with Client(options.url) as client:
        queues = queues_of(client._ctx.store)
        name = options.name

        def some(ids: Sequence[str] | None) -> int:
            return run_sync(queues.revive(name, ids, REQUEST_S))

        done = _in_batches(options.ids or None, some, "{} jobs revived")
    return _told(f"{count(done, 'dead letter')} of {visible(name)} to be tried again", done)


def purge(options: argparse.Namespace) -> int:
    """Remove jobs for good; 0 if there were any, and the person agreed."""
    with Client(options.url) as client:
        queues = queues_of(client._ctx.store)
        name, state = options.name, JobState(options.state) if options.state else None
        if not options.yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                say(f"purging {visible(name)!r} needs --yes where nobody can be asked")
                return codes.USAGE
            if not _agreed(client, options):
                say("nothing was changed")
                return NOT_DONE

        def some(ids: Sequence[str] | None) -> int:
            return run_sync(queues.purge(name, state, ids, REQUEST_S))

        done = _in_batches(options.ids or None, some, "{} jobs removed")
    return _told(f"{count(done, 'job')} of {visible(name)} removed", done)


def _in_batches(ids: Sequence[str] | None, some: Some, words: str) -> int:
    """Do it to some after the others, up to 1,000 in a round trip; how many they were."""
    progress, done = Progress(words), 0
    try:
        if ids is not None:
            for start in range(0, len(ids), BATCH_MAX):
                done += some(ids[start : start + BATCH_MAX])
                progress.tell(done)
            return done
        while more := some(None):
            done += more
            progress.tell(done)
        return done
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
        what = f"all that are {options.state}" if options.state else "all but those that are taken"
    print(
        f"{visible(options.name)!r} has {stands}.",
        "What is removed is gone for good.",
        f"Remove {what}? [y/N] ",
        sep="\n",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")
