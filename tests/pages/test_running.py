"""The snippets, commands and examples of the pages and docstrings run."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests.tidy.covered import enough
from tests.tidy.pages import Snippet, snippets
from tests.tidy.tree import ROOT, files, relative

PAGES = files(".md")
PAGE_S_MAX = 60
#: Without the face for asyncio: an example can't await, and its twin for threads runs the same.
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    if not module.name.endswith("__main__") and not module.name.startswith("holdfast.aio")
    if ">>> " in inspect.getsource(importlib.import_module(module.name))
)
#: In a separate process, because the bare `lock()` of an example lives as long as its process.
EXAMPLES = """
import doctest, importlib, sys, holdfast
public = {name: getattr(holdfast, name) for name in holdfast.__all__}
results = []
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    seen = {**public, **vars(module)}
    results.append(doctest.testmod(module, globs=seen, optionflags=doctest.ELLIPSIS))
print(sum(result.attempted for result in results))
sys.exit(any(result.failed for result in results))
"""


#: The code in a line of the chooser.
CHOICE = re.compile(r"^\| [^|]+ \| `([^`]+)` \| \[", re.MULTILINE)
#: The names that the Python in the chooser uses.
CHOOSING = """
import sys
import psycopg
from holdfast import Client
from holdfast.sql import row_lock
worked = led = 0
client = Client()
def work():
    global worked
    worked += 1
def main(hold):
    global led
    led += 1
def render():
    return "page"
connection = psycopg.connect(sys.argv[1])
"""


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """The environment of a reader: an empty home, and `holdfast` on the path."""
    command = tmp_path / "bin" / "holdfast"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    (tmp_path / "home").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }


def run(command: list[str], surroundings: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=surroundings["HOME"],
        env=surroundings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PAGE_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def of(language: str) -> list[str]:
    """Return the pages with blocks in this language that are marked to run."""
    pages = (p for p in PAGES if any(s.language == language and s.runs for s in snippets(text(p))))
    return [relative(p) for p in pages]


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_the_readme_has_python_that_runs() -> None:
    assert "README.md" in of("python")
    enough("pages with Python that runs", of("python"))
    enough("pages with shell that runs", of("sh"))


@pytest.mark.usual(5)
@pytest.mark.parametrize("page", of("python"))
def test_the_python_of_the_page_runs(page: str, surroundings: dict[str, str]) -> None:
    run([sys.executable, "-Werror", "-m", "tests.pages.run_page", str(ROOT / page)], surroundings)


@pytest.mark.parametrize(
    "line",
    [s.line for s in snippets(text(ROOT / "README.md")) if s.language == "python" and s.runs],
)
def test_each_snippet_of_the_readme_runs_when_it_alone_is_pasted(
    line: int, surroundings: dict[str, str]
) -> None:
    page = [str(ROOT / "README.md"), str(line)]
    run([sys.executable, "-Werror", "-m", "tests.pages.run_page", *page], surroundings)


@pytest.mark.parametrize(
    "snippet",
    [s for s in snippets(text(ROOT / "README.md")) if "needs a Redis" in s.mark],
    ids=lambda one: f"{one.language}-{one.line}",
)
def test_the_snippets_of_the_readme_for_redis_run_on_one(
    snippet: Snippet, redis_url: str, surroundings: dict[str, str]
) -> None:
    code = snippet.code.replace("redis://localhost:6379/0", redis_url)
    assert redis_url in code
    shell = {"python": [sys.executable, "-Werror", "-c"], "sh": ["sh", "-eux", "-c"]}
    run([*shell[snippet.language], code], surroundings)


def test_each_line_of_the_chooser_of_the_readme_runs(
    postgres_url: str, surroundings: dict[str, str]
) -> None:
    """Each line gets the names that it uses: a client, a function, a connection, a script."""
    home = Path(surroundings["HOME"])
    (home / "report.sh").write_text("#!/bin/sh\necho reported\n", encoding="utf-8")
    (home / "report.sh").chmod(0o755)
    surroundings["HOLDFAST_URL"] = f"sqlite://{home}/locks.db"
    lines = CHOICE.findall(text(ROOT / "README.md"))
    assert len(lines) == 9
    shell = [one for one in lines if one.startswith("holdfast ")]
    run(["sh", "-eux", "-c", "\n".join(shell)], surroundings)
    python = [one for one in lines if one not in shell]
    code = "\n".join([CHOOSING, *python, "assert [worked, led] == [3, 1], (worked, led)"])
    run([sys.executable, "-Werror", "-c", code, postgres_url], surroundings)


def test_the_readme_opens_with_the_installation_and_the_demo() -> None:
    first = next(snippets(text(ROOT / "README.md")))
    # Not by its name: another project on PyPI has that name.
    assert first.code.splitlines()[0].split("#")[0].strip() == "pip install '.[redis]'"
    assert first.code.splitlines()[1].startswith("holdfast demo")


def test_the_shell_commands_of_the_pages_run(surroundings: dict[str, str]) -> None:
    for page in of("sh"):
        blocks = [s.code for s in snippets(text(ROOT / page)) if s.language == "sh" and s.runs]
        run(["sh", "-eux", "-c", "\n".join(blocks)], surroundings)


def test_a_planted_failing_snippet_is_found(tmp_path: Path, surroundings: dict[str, str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: it would fail -->\n```python\nraise OSError\n```\n"
        "```python\nimport asyncio\nx = 41\nawait asyncio.sleep(0)\n```\n"
        "```python\nx += 1\nassert x != 42, 'planted'\n```\n"
    )
    with pytest.raises(AssertionError, match=r'page.md", line 12[\s\S]*planted'):
        run([sys.executable, "-m", "tests.pages.run_page", str(page)], surroundings)


def test_the_examples_in_the_docstrings_are_true() -> None:
    enough("modules with examples", MODULES)
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES, *MODULES],
        env={"PYTHONPATH": str(ROOT / "src"), "HOLDFAST_URL": "memory://"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 3
