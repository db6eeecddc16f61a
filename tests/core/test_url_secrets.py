"""A password in a mistyped URL is never shown: not in an error, a name or an output."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import subprocess
import sys
import traceback
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.url import BUILTIN, FILES, find
from tests.torture.scale import part, times

SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or secrets.randbits(32)
#: Two parts of a password that occur nowhere else. The texts between them split a URL.
HEAD, TAIL = "qzxhead", "qzxtail"
PLAIN = f"redis://:{HEAD}@h/0"
BREAKS = ["", "/", "?", "#", "@", ":", "%", "%zz", " ", "\n", "&db=", "//", "[", ",", "\\"]
SERVERS = sorted(BUILTIN.keys() - FILES)
#: Shapes of a URL with a password, to which the scheme is added.
BEHIND = """
:{p}@h/0|u:{p}@h/0|/:{p}@h/0|/u:{p}@h/0|//u:{p}@h/0|:{p}|u:{p}|u:{p}/0|/u:{p}|h/u:{p}|h,u:{p}
|h1,h2/u:{p}@x/0|u:{p}@|u:{p}@/|u:{p}@h:port/0|u:{p}@h:99999/0|u:{p}@[::1/0|u:{p}@h/a/b/c
|u:{p}@h/0?nonsense=1|u:{p}@h/0?{p}@x=1|h/0?x=u:{p}@h|h/0?db=u:{p}@h|h/0?prefix=u:{p}@h
|h/0#u:{p}@h|:pa?db={p}@h
"""
OTHERS = """
{s}:/u:{p}@h/0|{s}:u:{p}@h/0|{s}:u:{p}|{s}//u:{p}@h/0|u:{p}@{s}://h/0|u:{p}@h/0
|{s}x://u:{p}@h/0|{s}://{s}://u:{p}@h/0| {s}://u:{p}@h/0|'{s}://u:{p}@h/0'
"""
SHAPES = ["{s}://" + shape for shape in BEHIND.replace("\n", "").split("|")]
SHAPES += OTHERS.replace("\n", "").split("|")
ALPHABET = [*"/:@?#hu0,[]%&", "://", "db=", "prefix="]


def shown_of(source: Any) -> Iterator[str]:
    """Return every text in which holdfast shows this URL."""
    for make in (Client, AsyncClient):
        try:
            made = make(source)
        except ConfigError as wrong:
            yield str(wrong)
            yield repr(wrong)
            yield from _chain(wrong)
        else:
            yield from (made.url, repr(made), repr(made.lock("x")), str(made.owner))
    if not isinstance(source, str):
        return
    with contextlib.suppress(ConfigError):
        _, url = find(source)
        yield from (str(url), repr(url))


def _chain(wrong: BaseException | None) -> Iterator[str]:
    """Return the texts that a traceback prints for this error and its causes."""
    while wrong is not None:
        yield "".join(traceback.format_exception_only(wrong))
        wrong = wrong.__cause__ or (None if wrong.__suppress_context__ else wrong.__context__)


def check(source: str) -> None:
    """Check that the password is hidden.

    Text after the last '@' can be a host, so it can be shown.
    """
    hidden = [HEAD]
    if source.rfind("@") < 0 or source.rfind(TAIL) < source.rfind("@"):
        hidden.append(TAIL)
    for text in shown_of(source):
        assert not any(one in text for one in hidden), f"{source!r} is shown as {text!r}"


@pytest.mark.usual(12)
@pytest.mark.parametrize("scheme", SERVERS)
def test_no_shape_of_a_mistyped_url_shows_its_password(scheme: str) -> None:
    for number, shape in enumerate(SHAPES):
        # Each shape meets all separators over the schemes, and some of them for each scheme
        first = number + SERVERS.index(scheme)
        for at in range(times(5, 2)):
            broken = BREAKS[(first + 3 * at) % len(BREAKS)]
            check(shape.format(s=scheme, p=HEAD + broken + TAIL))


def test_no_text_made_by_chance_shows_what_stands_before_an_at_sign() -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    for _ in range(2000):
        parts = [dice.choice(ALPHABET) for _ in range(dice.randrange(1, 9))]
        parts.insert(dice.randrange(len(parts) + 1), dice.choice([":", "u:", ":u:"]) + HEAD)
        after = "".join(parts).partition(HEAD)[2]
        end = "" if "@" in after else "@h"
        check(dice.choice(SERVERS) + "://" + "".join(parts) + end)


@pytest.mark.parametrize("given", [PLAIN.encode(), urlsplit(PLAIN), [PLAIN], {"url": PLAIN}])
def test_what_is_no_url_is_named_by_its_type_alone(given: Any) -> None:
    for text in shown_of(given):
        assert HEAD not in text
        assert type(given).__name__ in text


MISTYPED = [
    f"redis:///:{HEAD}@h/0",
    f"redis://:{HEAD}",
    f"postgresql:///u:{HEAD}@h/db",
    f"u:{HEAD}@h",
]
COMMANDS = [words.split() for words in ("doctor --json", "doctor", "ls", "show x", "LS")]
COMMANDS.append(["run", "x", "--", "true"])
WAYS = ["argument", "environment"]


def run(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, "HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.usual(6)
@pytest.mark.parametrize("source, command, way", part(product(MISTYPED, COMMANDS, WAYS), usual=17))
def test_no_command_prints_the_password_of_a_mistyped_url(
    source: str, command: list[str], way: str, tmp_path: Path
) -> None:
    first = [command[0]]
    if way == "argument":
        first += ["--url", source]
    done = run(tmp_path, *first, *command[1:], HOLDFAST_URL=source)
    assert done.returncode != 0
    assert HEAD not in done.stdout + done.stderr
    if command == ["doctor", "--json"]:
        assert json.loads(done.stdout)[-1]["level"] == "fail"


def test_a_mistyped_option_prints_no_password(tmp_path: Path) -> None:
    done = run(tmp_path, "ls", "--ulr", f"redis://:{HEAD}@h/0")
    assert done.returncode == 64
    assert HEAD not in done.stdout + done.stderr
