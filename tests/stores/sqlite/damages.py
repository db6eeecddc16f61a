"""Rounds of ``holdfast.testing.faults.damage`` on files, in a process that can die of them.

``python -m tests.stores.sqlite.damages FOLDER CASE...`` plays the cases. Each case has separate
files below the folder. The process prints one line of JSON for each case, with the errors found. If
a process has mapped a file that is truncated, the process dies of SIGBUS. Its parent then calls
``python -m tests.stores.sqlite.damages --after FOLDER``, which reports whether the files are still
usable.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import socket
import stat
import sys
import threading
from pathlib import Path

from holdfast.stores.sqlite.blocking import world
from holdfast.testing.faces import FACES
from holdfast.testing.faults.damage import Case, Round, Verdict

PAGE = 4096
#: If damage makes the end of the last lease unknown, the store grants nothing for this time. The
#: leases of a round are short, so this time is short too.
world.UNKNOWN_S = 3.0


class Files:
    """An implementation of `holdfast.testing.faults.damage.Ground` for the files of one store."""

    #: Seconds for which two holders can overlap: a third of the ttl until the next renewal, plus a
    #: margin for a busy machine.
    overlap_s = 3.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self.url = f"sqlite://{folder}/locks.db"

    def items(self, token: str) -> list[str]:
        """Return all files and folders of the store. ``token`` is ignored, because each round has
        its own folder."""
        names = sorted(str(one.relative_to(self._folder)) for one in self._folder.rglob("*"))
        return [name for name in names if not name.endswith("-opening")]

    def damage(self, item: str, kind: str, chance: random.Random) -> bool:
        """Damage one file or folder."""
        path = self._folder / item
        try:
            info = path.lstat()
        except FileNotFoundError:
            return False
        if kind in ("removed", "another type"):
            if stat.S_ISDIR(info.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            if kind == "another type":
                another(path, stat.S_ISDIR(info.st_mode), chance)
            return True
        if not stat.S_ISREG(info.st_mode):
            return False
        with contextlib.suppress(FileNotFoundError):
            change(path, info.st_size, kind, chance)
        return True


def another(path: Path, folder: bool, chance: random.Random) -> None:
    """Make a file, folder, link, pipe or socket in the place of a removed file or folder."""
    kinds = ["file" if folder else "folder", "link", "pipe", "socket"]
    try:
        match chance.choice(kinds):
            case "file":
                path.touch()
            case "folder":
                path.mkdir()
            case "link":
                path.symlink_to("/nowhere")
            case "pipe":
                os.mkfifo(path)
            case _:
                with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
                    one.bind(path.name)
    except OSError as wrong:
        if wrong.errno not in (errno.EEXIST, errno.EADDRINUSE):  # it was made again meanwhile
            raise


def change(path: Path, size: int, kind: str, chance: random.Random) -> None:
    """Truncate the file, or overwrite a part of it that isn't zero."""
    if kind in ("emptied", "truncated"):
        os.truncate(path, 0 if kind == "emptied" else chance.randrange(max(1, size)))
        return
    data = path.read_bytes()
    used = [at for at in range(0, len(data), 8) if any(data[at : at + 8])] or [0]
    at = chance.choice(used)
    if kind == "flipped":
        at += chance.randrange(8)
        new = bytes([(data[at] if at < len(data) else 0) ^ (1 << chance.randrange(8))])
    else:
        byte = b"\0" if kind == "zeroes" else chance.choice((b"\xff", b"\x7f"))
        length = chance.choice((8, 8, PAGE, len(data)))
        at -= at % min(length, PAGE)
        at = 0 if length == len(data) else at
        new = byte * min(length, max(len(data) - at, 1))
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.pwrite(fd, new, at)
    finally:
        os.close(fd)


def play(folder: Path, case: Case) -> Verdict:
    """Play one round with its own files; one case in four under asyncio."""
    ground = Files(folder / f"{case.act}-{case.item}-{case.kind}-{case.seed}".replace(" ", "-"))
    return Round(ground, case, FACES["sync" if case.seed % 4 else "aio"]).play()


def main(arguments: list[str]) -> int:
    """Play all cases at the same time, or with ``--after`` check the files of a dead process."""
    if arguments[0] == "--after":
        verdict = Round(Files(Path(arguments[1])), Case(-1, 0, "removed", 1)).play()
        print(json.dumps(["after", verdict.wrong]), flush=True)
        return 0
    folder, cases = Path(arguments[0]), [Case(*json.loads(one)) for one in arguments[1:]]

    def one(case: Case) -> None:
        verdict = play(folder, case)
        print(json.dumps([verdict.damaged, verdict.wrong]) + "\n", end="", flush=True)

    threads = [threading.Thread(target=one, args=(case,)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
