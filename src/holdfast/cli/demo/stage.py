"""Runs the demo: makes a folder and the crew, runs the story, prints the verdict, cleans up."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from ...errors import ConfigError
from ...sync import Client
from ..across.ending import Ending
from . import ledger, timeline
from .crew import Crew, StoryError
from .history import Event, What, scenes, workers
from .story import SIZE, Story
from .voice import Voice


def play(keep: bool) -> int:
    """Run, check and draw the story; return the exit status. After a failure, keep the folder."""
    Ending()  # so that SIGTERM and SIGHUP end the demo like Ctrl-C
    try:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve()
    except OSError as wrong:
        raise ConfigError(
            f"no folder can be created for the demo ({wrong.strerror}); "
            "set TMPDIR to a folder that you may write to"
        ) from None
    voice = Voice()
    try:
        events, right = tell(voice, folder)
        keep = keep or not right
        voice.head("5  The hand-offs")
        for scene in scenes(events):
            print()
            voice.say(scene.title)
            print(*timeline.draw(scene, workers(events), voice), sep="\n")
        print()
        voice.say(timeline.legend(voice))
    except StoryError as wrong:
        right, keep = False, True
        voice.say(f"The demo can't continue: {wrong}", "!")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep:
        voice.say(f"Lock store and ledger are kept in {folder}")
    return 0 if right else 1


def tell(voice: Voice, folder: Path) -> tuple[list[Event], bool]:
    """Run the three acts and the verdict; return the events, and True if all promises were kept."""
    store, path = folder / "locks.db", folder / "ledger.txt"
    with Client(store) as client:  # to fail here, not in a worker, if the store can't be used
        client.inspect()
    path.touch()
    voice.head("holdfast: nine processes, one lock, one ledger")
    voice.say(
        "Everything is real: processes, files, signals and times. The locks are in one SQLite "
        "file; no server runs."
    )
    with Crew(SIZE, store, path) as crew, Client(store, label="story") as client:
        story = Story(crew, client, path, voice)
        story.tell()
    events = sorted(crew.events, key=lambda event: event.at)
    voice.head("4  The verdict")
    right = True
    for promise, wrong in _verdict(events, path.read_bytes(), story):
        voice.say(promise, "!" if wrong else "+")
        for text in wrong:
            voice.say(f"WRONG: {text}", "!")
        right = right and not wrong
    voice.say("All promises were kept." if right else "SOMETHING IS WRONG, see above.")
    return events, right


def _verdict(events: list[Event], data: bytes, story: Story) -> Iterator[tuple[str, list[str]]]:
    """Yield the text of every promise, with a list of its violations."""
    faults = ledger.audit(data, [e.entry for e in events if e.entry], story.pardoned)
    whole = "each balance follows from the last one, fences rise, and no line is torn, missing"
    entries = len(data.splitlines())
    yield f"The ledger, line by line: {entries} entries without a gap; {whole} or repeated", faults
    holds = [e for e in events if e.what is What.HELD]
    falling = [
        f"{b.worker} got fence {b.fence} after {a.worker} had got {a.fence}"
        for a, b in pairwise(holds)
        if b.fence <= a.fence
    ]
    yield f"{len(holds)} holds, and each had a greater fence than the last one", falling
    together = [text for scene in scenes(events) for text in scene.overlaps()]
    yield "At no moment did two workers hold the lock", together
    yield "All workers got the lock in order, and a late write was refused", story.wrong
