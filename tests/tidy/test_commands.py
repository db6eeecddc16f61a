"""Every command and every flag is explained in docs/cli.md, and nothing there is out of date."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from holdfast.cli import parser
from tests.tidy.covered import enough
from tests.tidy.tree import ROOT

PAGE = ROOT / "docs" / "cli.md"
Parser = argparse.ArgumentParser


def commands(of: Parser, path: str = "holdfast") -> Iterator[tuple[str, Parser]]:
    """Return ("holdfast ls", its parser) for every command that can be called, at any depth."""
    below = [a for a in of._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield path, of
    for action in below:
        for name, child in action.choices.items():
            yield from commands(child, f"{path} {name}")


def flags(of: Parser) -> set[str]:
    return {f for a in of._actions for f in a.option_strings} - {"-h", "--help"}


def sections(text: str) -> dict[str, str]:
    """Return the page by its headings: the text from each heading to the next."""
    parts = re.split(r"^#+ +(.+?)\s*$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def section(text: str, command: str) -> str:
    """Return the section with this command in its heading."""
    for heading, body in sections(text).items():
        if re.search(rf"(?<!\w){re.escape(command)}(?![\w-])", heading):
            return body
    return ""


def unexplained(of: Parser, command: str, text: str) -> Iterator[str]:
    """Return what the section about a command lacks."""
    body = section(text, command)
    if not body.strip():
        yield f"no section with '{command}' in its heading"
        return
    for flag in sorted(flags(of)):
        if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", body):
            yield f"{command} {flag}"


def invented(known: set[str], text: str) -> list[str]:
    """Return the flags that the page mentions, as `--flag`, and no command has."""
    return sorted(set(re.findall(r"`(--[a-z][a-z-]*)", text)) - known - {"--help"})


COMMANDS = dict(commands(parser()))


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_walk_sees_the_commands() -> None:
    assert {"holdfast run", "holdfast ls", "holdfast show", "holdfast break"} <= set(COMMANDS)
    enough("commands", COMMANDS)
    enough("flags of commands", [flag for of in COMMANDS.values() for flag in flags(of)])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_and_its_flags_are_explained(command: str) -> None:
    assert list(unexplained(COMMANDS[command], command, text())) == []


def test_the_page_names_no_removed_flag() -> None:
    known = {flag for of in [parser(), *COMMANDS.values()] for flag in flags(of)}
    assert invented(known, text()) == []


def test_planted_gaps_are_found() -> None:
    page = "# Commands\n## holdfast ls\n`--json` and `--jump`\n"
    planted = argparse.ArgumentParser()
    planted.add_argument("--json")
    planted.add_argument("--watch")
    assert list(unexplained(planted, "holdfast ls", page)) == ["holdfast ls --watch"]
    assert list(unexplained(planted, "holdfast show", page)) == [
        "no section with 'holdfast show' in its heading"
    ]
    assert invented(flags(planted), page) == ["--jump"]
