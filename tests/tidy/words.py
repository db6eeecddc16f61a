"""The word list: phrases that a reader of English as a second language has to translate.

`holdfast` writes plain English (docs/glossary.md). Class A must go; class B may not grow. Text in
backticks is a name in the code and doesn't count. Record lower figures with
``python -m tests.tidy.words --record``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, SRC, files, relative

FIGURES = Path(__file__).with_name("words.txt")
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]

_AFTER = "of|to|by|for|from|than|with|if|that|and|or|but|only|when|until|as|lets|shows?|knows?"
_VERBS = "ha[sd]|have|is|waits?|holds|computes|comes|came|leaves|left|joins|reads|takes|puts"
_END = r"(?=[.,;:)\]\0]| (?:and|or|that|which|in|for|with|to|is|are|by|at|as|from|on|of|so)\b|$)"
#: Phrase (a blank matches any white space) = what to write instead. `|` ends no phrase.
CLASSES = {
    "A": rf"""
(?:^|[\0.;:(,!?*"] ?|\b(?:{_AFTER}) )who(?= (?:{_VERBS}|acquires|asks|works|can|may)\b) = the waiter
\b(?:for ever|without end)\b = without a time limit
\b(?:his|he|him)\b(?!-) = it, its
\b(?:is|are|was) over\b(?! \d) = has expired, has ended
\blanes?\b = ungrouped jobs; producer
\b(?:prolong(?:s|ed)?|survey|glance)\b = renew, inspect, peek
\bone who\b = the caller that, the waiter that
\ball there is\b = everything, all fields
\banew\b = again; a new
\bdut(?:y|ies)\b = refresh lease
\berrands?\b = shielded task
\bweather\b = network faults
\bteller\b = executor
\bnursery\b = supervisor
\bfor want of\b|\bas a rule\b|\bin earnest\b|\bfor good\b|\bby then\b = usually
\bg(?:ives?|iven|ave|iving) (?:(?:it|them|this|that|(?:the|a) (?:lock|hold)) )?back\b = release
\bgate\b = file mutex
\bgo(?:es)? on\b|\bwent on\b = continue
\bin vain\b = without success
(?<!-)\bkeepers?\b = renewer; holder process (command line)
\blets? (?:in|nobody|anybody|go|all)\b = grant; forget, close
\bmend(?:s|ed|ing)?\b = fix, repair, remedy
\bmerely\b|\bseldom\b|\bnoughts\b|\bthereby\b|\bwhereof\b|\bfortnight\b = only, rarely, zeros
\bnouns\b = data types
\bof (?:its|our|your|their|his|yours) own{_END} = its own X, a separate X
\bon loan\b|\bloans?\b = delivered, delivery
\bpatience\b = waiter TTL; retry policy
\bpoke[sd]?\b = wake, wake-up
\bso (?:long|often|much|soon)\b = name the value: "for `ttl` seconds"
\bso many\b = name the limit: "at most `limit` jobs"
\bspeaks?\b = send; uses protocol X
\bstr(?:ike|ikes|uck|iking)\b = inject a fault, interrupt
\bt(?:akes?|ook|aken) back\b = recover
\bt(?:akes?|aken) in(?! (?:one|an?|the|order|turn|this|that|each|its)\b) = accept
\bthose (?:who|that)\b = waiters, holders, the jobs that
\bto be had\b|\b(?:is|are|was) had\b = available, is held
\btombs?\b|\bbur(?:y|ies|ied)\b = tombstone
\btracks?\b = group
\bwhoever\b = the client that, any process that
\bwish(?:es)?\b = request
\bworlds?\b = generation; scheduler
""",
    "B": r"""
\bany ?more\b = no longer
\bas (?:it (?:is|was|stands|stood)|they (?:are|stand|were))\b = unchanged, current
\bbesides?\b = next to, in addition
\bfor people\b|\b(?:as people|people (?:see|read|look|can))\b = human-readable
\bfrom now on\b = after this
\bhas (?:it|them)\b = holds the lock, contains
\bhear[sd]?\b = receive, is notified
\bnobody\b = no client, no process
\bsa(?:ys|id)\b = returns, contains, reports
\bsomebody\b = another client
\bsooner\b = earlier, faster
\bstands? (?:in|at|there|for|behind|below|above|on|alone)\b = is in, is stored in
\bt(?:old|ells?|elling)\b = notify, return, log
""",
}
LIST = [
    (name, re.compile(pattern.replace(" ?", r"\s*").replace(" ", r"\s+"), re.MULTILINE), instead)
    for name, lines in CLASSES.items()
    for pattern, _, instead in (one.rpartition(" = ") for one in lines.strip().splitlines())
]

_PYTHON = re.compile(r'""".*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(#[^\n]*)', re.DOTALL)
_OTHER = re.compile(r"(--[^\n]*)")
_PAGE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*", re.DOTALL | re.MULTILINE)
_NAMES = re.compile(
    r"``[^`]+``|`[^`\n]+`|\]\([^)\s]*\)|\{[^}\n]*\}|\w+(?=\()|(?<!\S)--[\w-]+|\bb'[^'\n]*'|\bb\"[^\"\n]*\""
)
#: A string or a comment that is code: a statement, or the name of a statement.
_CODE = re.compile(
    r"\b(?:SELECT|FROM|AND|IN|ON|WHERE|ORDER BY)\b|^-- name: "
    # Rows of a table of verbs.
    r"|^\"(?:(?:[\w.*]+:[\w.*:,?]+|\$\w+)(?: |(?=\"$)))+\"$"
)


def prose(text: str, suffix: str) -> str:
    """Return the text on the same lines, with code as NUL and names as x."""
    if suffix == ".md":
        text = _PAGE.sub(lambda block: "\0" + "\n" * block[0].count("\n"), text)
    else:
        done, parts = 0, []
        for found in (_PYTHON if suffix == ".py" else _OTHER).finditer(text):
            code = text[done : found.start()]
            parts.append("\0" * bool(code.strip()) + "\n" * code.count("\n") + " ")
            said = found[1] or found[0].startswith('"""') or " " in found[0]
            if _CODE.search(found[0]) and not found[0].startswith(('"""', "#")):
                said = suffix == ".sql" and not found[0].startswith("-- name: ")
            parts.append(found[0].strip("#:-\"'") if said else "\0")
            done = found.end()
        text = "".join(parts)
    return _NAMES.sub(lambda name: "x" + "\n" * name[0].count("\n"), text).lower()


def hits(text: str, suffix: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, class, phrase and what to write instead."""
    text = prose(text, suffix)
    for name, pattern, instead in LIST:
        for found in pattern.finditer(text):
            phrase = " ".join(found[0].strip('\0 .;:(,!?*"').split())
            yield text.count("\n", 0, found.end()) + 1, name, phrase, instead


def found() -> dict[str, list[tuple[int, str, str, str]]]:
    """Return the hits of every page and every source file of the project, by path."""
    paths = [*PAGES, *files(".md", under=ROOT / "docs"), *files(".py", ".lua", ".sql", under=SRC)]
    return {relative(p): sorted(hits(p.read_text(encoding="utf-8"), p.suffix)) for p in paths}


def count(lines: list[tuple[int, str, str, str]]) -> tuple[int, int]:
    """Return how many hits are of class A and of class B."""
    classes = [name for _, name, _, _ in lines]
    return classes.count("A"), classes.count("B")


def recorded() -> dict[str, tuple[int, int]]:
    """Return the recorded figures by path: class A, class B."""
    lines = (line.split() for line in FIGURES.read_text(encoding="utf-8").splitlines())
    return {path: (int(a), int(b)) for path, a, b in lines}


if __name__ == "__main__":
    now = {path: count(lines) for path, lines in found().items()}
    if "--record" in sys.argv:
        lines = (f"{path} {a} {b}\n" for path, (a, b) in sorted(now.items()) if a or b)
        FIGURES.write_text("".join(lines), encoding="utf-8")
    for area in ("docs", "src"):
        figures = [one for path, one in now.items() if path.startswith("src/") == (area == "src")]
        print(area, *(sum(column) for column in zip(*figures, strict=True)))
