"""Writes the page of an arena in docs, and its picture, from the stored figures.

The figures of the last run with ``--write-docs`` are in ``bench/figures``. A run replaces the
tables that it measured. The text between two markers on the page is made from that file, so a test
can detect changes by hand.

The tables of serial queues of all stores are on one page, and those of refresh guards on another;
these pages have no picture. The figures are in separate files, here called books, such as
``postgres-queues`` and ``redis-guards``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import picture, report
from .model import Result, from_json, to_json

ROOT = Path(__file__).resolve().parents[1]
#: The arena whose page is ``performance.md``; the pages of other arenas refer to it.
FIRST = "embedded"
#: The beginning of the names of suites with a separate page -> the end of the names of their books.
_BOOKS = {"queue": "-queues", "guard": "-guards"}
_BLOCK = re.compile(r"(<!-- bench (\S+) -->\n).*?(<!-- bench end -->)", re.DOTALL)


def figures(arena: str) -> Path:
    """Return the file with the figures of an arena or book."""
    return ROOT / "bench" / "figures" / f"{arena}.json"


def page(arena: str) -> Path:
    """Return the file of the page of an arena or book."""
    for ending in _BOOKS.values():
        if arena.endswith(ending):
            return ROOT / "docs" / f"performance{ending}.md"
    name = "performance" if arena == FIRST else f"performance-{arena}"
    return ROOT / "docs" / f"{name}.md"


def image(arena: str) -> Path:
    """Return the file of the picture of an arena."""
    return ROOT / "docs" / "img" / f"{arena}.svg"


def write(arena: str, about: Mapping[str, object], results: Sequence[Result]) -> Iterator[Path]:
    """Replace the figures that were measured, and the page and picture; yield the files."""
    books: dict[str, list[Result]] = {}
    for one in results:
        books.setdefault(arena + _BOOKS.get(one.suite.partition("-")[0], ""), []).append(one)
    for book, some in books.items():
        yield from _write(book, about, some)


def _write(arena: str, about: Mapping[str, object], results: Sequence[Result]) -> Iterator[Path]:
    path = figures(arena)
    kept = read(path) if path.is_file() else {}
    kept.update({result.key: result for result in results})
    plain = {**about, "results": [to_json(result) for result in kept.values()]}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    yield path
    text = page(arena)
    text.write_text(filled(text.read_text(encoding="utf-8"), arena), encoding="utf-8")
    yield text
    if not arena.endswith(tuple(_BOOKS.values())):
        image(arena).parent.mkdir(exist_ok=True)
        image(arena).write_text(picture.svg(arena, kept, _about(path)), encoding="utf-8")
        yield image(arena)


def read(path: Path) -> dict[str, Result]:
    """Return the results in a file, by their keys."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    return {one["key"]: from_json(one) for one in plain["results"]}


def filled(text: str, arena: str) -> str:
    """Return the text of the page with its blocks made from the stored figures."""
    path = figures(arena)
    results, about = read(path), _about(path)

    def block(found: re.Match[str]) -> str:
        name, _, key = found[2].partition(":")
        if name != arena:
            return found[0]
        return f"{found[1]}\n{_inside(key, results, about)}\n\n{found[3]}"

    return _BLOCK.sub(block, text)


def _about(path: Path) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del plain["results"]
    return plain


def _inside(key: str, results: Mapping[str, Result], about: Mapping[str, Any]) -> str:
    if key == "machine":
        versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        return f"{about['machine']}; {versions}."
    if key == "targets":
        return "\n".join(_targets(results.values()))
    if key not in results:
        return "Not measured yet."
    result = results[key]
    lines = [f"{report.conditions(result).capitalize()}; {result.when}.", "", *report.table(result)]
    for line in report.noise(result):
        lines += ["", f"*Noisy: {line}.*"]
    return "\n".join(lines)


def _targets(results: Sequence[Result] | Any) -> Iterator[str]:
    """Yield the lines of a table of all targets with the measured figures."""
    yield "| target | measured | |"
    yield "|---|---|---|"
    for result in results:
        for one in result.verdicts:
            wanted, measured, word = report.verdict(one, result).rsplit(": ", 2)
            yield f"| {result.title}: {wanted} | {measured} | {word} |"
