"""The frame of the story: a private folder, the crew, the verdict, the pictures, the end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from ...errors import ConfigError, HoldfastError, StoreUnavailable
from ...sync import Client
from . import picture, timeline
from .crew import Crew, StoryError
from .history import Event, scenes, workers
from .story import SIZE, Story
from .verdict import findings
from .voice import Mark, Unheard, Voice

EX_WRONG, EX_UNAVAILABLE, EX_IO, EX_CONFIG, EX_SIGNAL = 1, 69, 74, 78, 128
PICTURE, LEDGER, STORE = "timeline.svg", "ledger.txt", "locks.db"


class Told(NamedTuple):
    """The story is told: what was measured, the facts worth a headline, and was all right?"""

    events: list[Event]
    facts: list[str]
    right: bool


class _Ended(BaseException):
    """A signal asks us to end. Not an ``Exception``, so that nobody takes it for a failure."""


def play(out: Path | None, keep: bool) -> int:
    """Tell the story, check it, draw it; the exit status."""
    try:
        with _ending():
            target = None if out is None else _ready(out)
            with _folder() as folder:
                return _play(Voice(sys.stdout), folder, target, keep)
    except KeyboardInterrupt:
        return EX_SIGNAL + signal.SIGINT
    except _Ended as signal_:
        return EX_SIGNAL + int(signal_.args[0])
    except BrokenPipeError:  # whoever read the story has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EX_SIGNAL + signal.SIGPIPE
    except StoreUnavailable as wrong:
        return _complain(wrong, EX_UNAVAILABLE)
    except Unheard as wrong:
        # What is still buffered can't be written; the interpreter would try, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _complain(wrong, EX_IO)
    except (HoldfastError, OSError) as wrong:
        return _complain(wrong, EX_CONFIG)


def _play(voice: Voice, folder: Path, target: Path | None, keep: bool) -> int:
    try:
        told = _tell(voice, folder)
    except StoryError as wrong:
        voice.say(f"The story can't go on: {wrong}", Mark.WRONG)
        voice.say(f"What there is of it is in {folder}")
        return EX_WRONG
    kept = folder if keep or not told.right else None
    drawn = _draw(voice, told, target or kept)
    if target is not None:
        shutil.copyfile(folder / LEDGER, target / LEDGER)
        voice.say(f"The ledger: {target / LEDGER}")
    if kept is not None:
        voice.say(f"Lock store and ledger are kept in {folder}")
    else:
        _sweep(folder)
    return 0 if told.right and drawn else EX_WRONG


def _tell(voice: Voice, folder: Path) -> Told:
    """The four parts of the story."""
    seed = random.SystemRandom().randrange(10**6)
    store, path = folder / STORE, folder / LEDGER
    with Client(store) as client:  # so that it is our error if nothing can be locked here
        client.inspect()
    path.touch()
    voice.title("holdfast: nine processes, one lock, one ledger")
    voice.say(
        "All of it happens now: real processes, files, signals and times. The locks live in one "
        f"SQLite file; no server runs. The seed is {seed}."
    )
    with Crew(SIZE, store, path, seed) as crew, Client(store, label="story") as client:
        story = Story(crew, client, path, voice, seed)
        story.tell()
        crew.dismiss()
    events = sorted(crew.events, key=lambda event: event.at)
    right = _judge(voice, story, events, path.read_bytes())
    return Told(events, story.facts, right)


def _judge(voice: Voice, story: Story, events: list[Event], data: bytes) -> bool:
    """Say what was promised and whether it was kept."""
    voice.head(4, "The verdict")
    right = True
    for finding in findings(events, data, story.pardoned, story.wrong):
        voice.say(finding.promise, Mark.WRONG if finding.wrong else Mark.GOOD)
        for text in finding.wrong:
            voice.say(f"WRONG: {text}", Mark.WRONG)
        right = right and not finding.wrong
    voice.say("All is as promised." if right else "SOMETHING IS WRONG, see above.")
    return right


def _draw(voice: Voice, told: Told, where: Path | None) -> bool:
    """Draw the hand-offs in the terminal, and as a picture in this folder; did that go well?"""
    voice.head(5, "The hand-offs")
    names = workers(told.events)
    parts = scenes(told.events)
    for scene in parts:
        voice.raw("")
        voice.say(scene.title)
        for line in timeline.draw(scene, names, voice.style):
            voice.raw(line)
    voice.raw("")
    voice.say(timeline.legend(voice.style))
    if where is None:
        return True
    try:
        fresh = where / (PICTURE + ".new")
        fresh.write_text(picture.svg(parts, names, told.facts), encoding="utf-8")
        fresh.replace(where / PICTURE)
    except OSError as wrong:
        voice.say(f"The picture could not be written: {wrong}", Mark.WRONG)
        return False
    voice.say(f"The picture: {where / PICTURE}")
    return True


# -- the surroundings ------------------------------------------------------------------------------


def _ready(out: Path) -> Path:
    """The folder that the user named, made and tried before the story begins."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            return out.resolve()
    except OSError as wrong:
        raise ConfigError(
            f"--out {out}: nothing can be written there ({wrong.strerror}); name another folder"
        ) from None


@contextmanager
def _folder() -> Generator[Path]:
    """A private folder; it goes when the story is broken off by an exception."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve()
    except OSError as wrong:
        raise ConfigError(
            f"no folder can be made for the demo ({wrong.strerror}); "
            "set TMPDIR to a folder that you may write to"
        ) from None
    try:
        yield folder
    except BaseException:
        _sweep(folder)
        raise


def _sweep(folder: Path) -> None:
    """Remove the folder, and what is in it."""
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ending() -> Generator[None]:
    """SIGTERM and SIGHUP end the story as Ctrl-C does: with nothing left behind."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise _Ended(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(wrong: Exception, status: int) -> int:
    print(f"holdfast: {wrong}", file=sys.stderr)
    return status
