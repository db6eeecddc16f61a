"""Run the python blocks of one page as one program: ``run_page.py PAGE``.

With a second argument it runs only the block whose code begins at this line. It is a separate
program, so that a page starts from nothing, as its reader does. Tracebacks name the page and its
lines.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import sys
from pathlib import Path

from tests.tidy.pages import snippets


def main(page: str, line: str = "") -> None:
    """Run every block that is marked to run, in order, in one namespace; or one of them."""
    text = Path(page).read_text(encoding="utf-8")
    linecache.cache[page] = (len(text), None, text.splitlines(keepends=True), page)
    names = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for snippet in snippets(text):
            if snippet.language != "python" or not snippet.runs:
                continue
            if line and snippet.line != int(line):
                continue
            shifted = "\n" * (snippet.line - 1) + snippet.code
            code = compile(shifted, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.iscoroutine(result):
                runner.run(result)


main(*sys.argv[1:])
