"""The interpreters of this machine: a full run runs the quick tests with each of them.

One interpreter of each minor version from 3.11, and of each free-threaded build, from pyenv,
``/usr/bin`` and the PATH. Each has a separate environment, ``.venv-3.X``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .groups import TESTS
from .verdicts import tell

ROOT = TESTS.parent
#: The supported minor versions of Python 3.
SUPPORTED = range(11, 15)
#: The program that returns the version of an interpreter, and "t" if it has no global lock.
_ASKED = (
    "import sys, sysconfig; "
    "print(*sys.version_info[:3], 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
)
_NAMES = re.compile(r"python3(\.\d+t?)?")
ASKED_S = 30.0


def candidates() -> Iterator[Path]:
    """Return every path that can be an interpreter."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob("versions/*/bin/python"))
    for folder in dict.fromkeys(["/usr/bin", *os.get_exec_path()]):
        named = Path(folder).glob("python3*")
        yield from sorted(path for path in named if _NAMES.fullmatch(path.name))


def found(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the newest interpreter of each kind ("3.13", "3.13t") from 3.11."""
    newest: dict[tuple[int, str], tuple[int, Path]] = {}
    for path in paths:
        try:
            said = subprocess.run(
                [path, "-c", _ASKED], capture_output=True, text=True, timeout=ASKED_S
            )
            major, minor, micro = map(int, said.stdout.split()[:3])
        except (OSError, subprocess.TimeoutExpired, ValueError):
            continue  # of pyenv's shims, only those of the chosen version run
        kind = minor, "t" if "t" in said.stdout else ""
        if (major, minor) >= (3, SUPPORTED[0]) and micro > newest.get(kind, (-1, path))[0]:
            newest[kind] = micro, path
    return {f"3.{kind[0]}{kind[1]}": newest[kind][1] for kind in sorted(newest)}


def ours() -> str:
    """Return the kind of this interpreter."""
    return next(iter(found([Path(sys.executable)])))


def missing(there: Iterable[str]) -> list[str]:
    """Return the supported versions that are missing."""
    return [name for minor in SUPPORTED if (name := f"3.{minor}") not in there]


def quick_with(python: Path, kind: str) -> int:
    """Run ``./dev test quick`` with this interpreter; return its exit code."""
    venv = f".venv-{kind}"
    env = {**os.environ, "PYTHON": str(python), "HOLDFAST_VENV": venv}
    for name in ("HOLDFAST_TORTURE", "PYTEST_ADDOPTS"):
        env.pop(name, None)
    return subprocess.run([ROOT / "dev", "test", "quick"], env=env).returncode


def quick_with_others(chosen: Mapping[str, Path] | None = None) -> int:
    """Run the quick tests with each other interpreter, and report missing ones; 0 if all pass."""
    there = found(candidates()) if chosen is None else dict(chosen)
    own = ours()
    codes = {}
    for kind, python in there.items():
        if kind != own:
            tell(f"Python {kind}: the quick tests, with {python}")
            codes[kind] = quick_with(python, kind)
    for kind, code in codes.items():
        tell(f"Python {kind}: the quick tests {'passed' if code == 0 else f'FAILED ({code})'}")
    if absent := missing([own, *there]):
        tell(f"not tested, because this machine has none: Python {', '.join(absent)}")
    return max(map(abs, codes.values()), default=0)
