"""The pages and the pictures contain what was measured, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import handoffs, page, picture
from bench.contenders import Arena
from bench.model import Result, from_json, to_json
from bench.scale import Scale
from bench.stores import ARENAS
from bench.suites import SUITES

MARKS = "# Title\n<!-- bench embedded:{} -->\nstale\n<!-- bench end -->\nby hand\n"


#: The arenas with recorded figures; and the same for the pages of their queues and guards.
WRITTEN = [arena for arena in ARENAS if page.figures(arena).is_file()]
BOOKS = [arena + ending for arena in ARENAS for ending in ("-queues", "-guards")]
QUEUES = [book for book in BOOKS if page.figures(book).is_file()]
every_arena = pytest.mark.parametrize("arena", WRITTEN)
every_book = pytest.mark.parametrize("arena", [*WRITTEN, *QUEUES])


def kept(arena: str = "embedded") -> dict[str, Result]:
    return page.read(page.figures(arena))


@every_book
def test_the_page_is_as_the_figures_are(arena: str) -> None:
    text = page.page(arena).read_text(encoding="utf-8")

    assert page.filled(text, arena) == text


@every_arena
def test_the_picture_is_as_the_figures_are_and_shows_every_contender(arena: str) -> None:
    about, results = json.loads(page.figures(arena).read_text(encoding="utf-8")), kept(arena)
    drawn = picture.svg(arena, results, about)
    assert page.image(arena).read_text(encoding="utf-8") == drawn
    root = ET.fromstring(picture.svg(arena, results, {"machine": "<a> & b", "versions": {}}))
    texts = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    names = {row.label.replace("`", "") for row in results["uncontended"].rows}
    assert names | {"<a> & b"} <= texts


def test_the_picture_of_the_demo_is_as_its_events_are() -> None:
    drawn = handoffs.svg(handoffs.read())

    assert page.image("demo-timeline").read_text(encoding="utf-8") == drawn
    texts = {text.text for text in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")}
    assert texts > {f"w{seat}" for seat in range(1, 10)} | {"killed", "write refused"}


@every_book
def test_every_table_that_is_measured_is_on_the_page(arena: str) -> None:
    text = page.page(arena).read_text(encoding="utf-8")
    blocks = set(re.findall(rf"<!-- bench {arena}:(\S+) -->", text))

    # A suite of queues or guards takes long, so a new run may not have measured all their tables
    assert set(kept(arena)) <= blocks - {"machine", "targets"}
    assert arena in QUEUES or set(kept(arena)) == blocks - {"machine", "targets"}


def test_a_change_by_hand_is_undone() -> None:
    filled = page.filled(MARKS.format("uncontended"), "embedded")

    assert "stale" not in filled
    assert filled.endswith("<!-- bench end -->\nby hand\n")
    assert "| filelock FileLock" in filled
    assert page.filled(filled, "embedded") == filled


def test_a_run_replaces_the_tables_that_it_measured_and_no_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = kept()
    about = {"machine": "a machine", "versions": {"holdfast": "1"}}
    monkeypatch.setattr(page, "ROOT", tmp_path)
    for folder in ("bench", "docs"):
        (tmp_path / folder).mkdir()
    # Given a project with two tables that were measured before
    text = page.page("embedded")
    text.write_text(MARKS.format("loop") + MARKS.format("startup"))
    list(page.write("embedded", about, [results["loop"], results["startup"]]))
    # When one of the two is measured again
    again = dataclasses.replace(results["loop"], when="2099-01-01")
    assert len(list(page.write("embedded", about, [again]))) == 3
    assert text.read_text().count("2099-01-01") == 1
    assert results["startup"].when in text.read_text()
    startup = from_json(to_json(results["startup"]))
    assert page.read(page.figures("embedded"))["startup"] == startup
    # And the tables of queues and of guards have separate pages
    for suite in ("queue", "guard"):
        book = f"embedded-{suite}s"
        other = tmp_path / "docs" / f"performance-{suite}s.md"
        other.write_text(MARKS.format("one").replace("embedded:", f"{book}:"))
        one = dataclasses.replace(again, suite=suite, key="one")
        assert list(page.write("embedded", about, [one])) == [page.figures(book), other]
        assert one.when in other.read_text()


@pytest.mark.parametrize("arena", [one for one in ARENAS.values() if "guard" in one.suites])
def test_every_table_of_guards_has_its_place_before_it_is_measured(arena: Arena) -> None:
    text = page.page(f"{arena.name}-guards").read_text(encoding="utf-8")
    blocks = set(re.findall(rf"<!-- bench {arena.name}-guards:(\S+) -->", text))

    panels = {panel.key for panel in SUITES["guard"].panels(arena, Scale())}
    assert blocks == panels | {"machine", "targets"}
