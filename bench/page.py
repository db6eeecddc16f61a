"""The page of an arena in docs and its picture, made from the figures and from nothing else.

The figures of the last run that was written down are kept in ``bench/figures``. A run replaces
the tables that it measured. What stands on the page between markers is made from that file, so
a test can tell whether somebody has changed it by hand.

The tables of serial queues are on one page for all stores, without a picture, and those of refresh
guards on another; their figures are those of the books ``postgres-queues``, ``redis-guards`` and so
on.
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
#: The arena of the first page, which the pages of the others refer to.
FIRST = "embedded"
#: What suites begin with that have a page of their own, and what their books end with.
_BOOKS = {"queue": "-queues", "guard": "-guards"}
_BLOCK = re.compile(r"(<!-- bench (\S+) -->\n).*?(<!-- bench end -->)", re.DOTALL)


def figures(arena: str) -> Path:
    """Where the figures of an arena are kept."""
    return ROOT / "bench" / "figures" / f"{arena}.json"


def page(arena: str) -> Path:
    """The page of an arena."""
    for ending in _BOOKS.values():
        if arena.endswith(ending):
            return ROOT / "docs" / f"performance{ending}.md"
    name = "performance" if arena == FIRST else f"performance-{arena}"
    return ROOT / "docs" / f"{name}.md"


def image(arena: str) -> Path:
    """Where the picture of an arena is."""
    return ROOT / "docs" / "img" / f"{arena}.svg"


def write(arena: str, about: Mapping[str, object], results: Sequence[Result]) -> Iterator[Path]:
    """Replace what was measured anew; the files that were written."""
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
    """The results that are kept in a file, by their keys."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    return {one["key"]: from_json(one) for one in plain["results"]}


def filled(text: str, arena: str) -> str:
    """The page with its blocks filled from the figures that are kept."""
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
    """Every target with what was measured."""
    yield "| target | measured | |"
    yield "|---|---|---|"
    for result in results:
        for one in result.verdicts:
            wanted, measured, word = report.verdict(one, result).rsplit(": ", 2)
            yield f"| {result.title}: {wanted} | {measured} | {word} |"
