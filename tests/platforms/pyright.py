"""Run pyright with the standard library of another platform, or on changed files.

``python -m tests.platforms.pyright Windows``, or ``changed``. For another platform it checks only
files whose own imports differ between platforms, which takes half the time of all files; mypy
checks the others, too.

``changed`` checks the code that users write, with the types that they see, and the files that
differ from the last landed commit.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import mypy

from tests import change

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "src/holdfast"
#: The stubs of every standard module, with its members on each platform.
STDLIB = Path(mypy.__file__).parent / "typeshed/stdlib"
#: POSIX code: it starts processes, or belongs to the embedded store. mypy.ini leaves out the same.
POSIX = {
    "Darwin": [
        "stores/sqlite/blocking",
        "fenced/blocking",
        "testing",
        "cli/break_.py",
        "cli/child.py",
        "cli/keep.py",
        "cli/run.py",
        "cli/demo",
        "cli/queue/nursery.py",
        "cli/queue/work.py",
    ]
}
POSIX["Windows"] = ["runtime/opening/blocking.py", *POSIX["Darwin"]]


def differing() -> set[str]:
    """Return the modules of the standard library that differ between platforms."""
    return {
        path.relative_to(STDLIB).parts[0].removesuffix(".pyi")
        for path in STDLIB.rglob("*.pyi")
        if "sys.platform" in path.read_text()
    }


def files(platform: str) -> list[Path]:
    """Return the files of holdfast that import a module that differs between platforms."""
    imported = re.compile(
        rf"^\s*(?:from|import) (?:{'|'.join(sorted(differing()))})\b", re.MULTILINE
    )
    left_out = [OURS / name for name in POSIX[platform]]
    for path in left_out:
        if not path.exists():
            raise SystemExit(f"{path} is left out of the check of {platform}, but isn't there")
    return [
        path
        for path in sorted(OURS.rglob("*.py"))
        if imported.search(path.read_text())
        and not any(path.is_relative_to(name) for name in left_out)
    ]


def written() -> list[Path]:
    """Return the code that users would write, and the changed files; nothing if unknown."""
    changed = change.files()
    if changed is None:
        return []
    ours = [ROOT / "src", ROOT / "bench"]
    return [
        *(ROOT / "tests/typing", ROOT / "examples"),
        *(
            path
            for path in sorted(changed)
            if path.suffix == ".py" and path.exists() and any(map(path.is_relative_to, ours))
        ),
    ]


def main(what: str) -> int:
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    if what == "changed":
        return subprocess.run([*pyright, *written()], cwd=ROOT).returncode
    seen_as = ["--pythonplatform", what, "--pythonversion", "3.11"]
    return subprocess.run([*pyright, *seen_as, *files(what)], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
