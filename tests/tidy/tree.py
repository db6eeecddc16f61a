"""The project's own files, as the tidy tests see them: paths, texts and syntax trees."""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "holdfast"

#: The line, and the absolute name of the module.
Import: TypeAlias = tuple[int, str]

#: Folders that tools make.
MADE = {"__pycache__", "build", "dist"}


def files(*suffixes: str, under: Path = ROOT) -> list[Path]:
    """Return every file of the project with one of these suffixes (or all), sorted."""
    found = []
    for folder, folders, names in os.walk(under):
        folders[:] = [f for f in folders if f == ".ci" or not (f.startswith(".") or f in MADE)]
        # In a second work tree `.git` is a file that names the first one.
        found += [Path(folder, name) for name in names if name != ".git"]
    return sorted(f for f in found if not suffixes or f.suffix in suffixes)


def relative(path: Path) -> str:
    """Return the path from the project's folder, with slashes."""
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    """Return the syntax tree of one Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), relative(path))


def imports(module: ast.Module) -> Iterator[Import]:
    """Return every absolute import, at any depth."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


@functools.cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Return the imports of one Python file."""
    return tuple(imports(tree(path)))
