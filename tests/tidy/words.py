"""The word list: phrases that a reader of English as a second language has to translate.

`holdfast` writes plain English (docs/glossary.md), in code, pages, change notes and tests. Text in
backticks is a name in the code and doesn't count, and neither does quoted code. There are no
exceptions. ``python -m tests.tidy.words`` prints the hits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, files, relative

PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
FOLDERS = [
    ROOT / name for name in ("docs", "changes", "src/holdfast", "tests", "bench", "examples")
]
#: Files that contain these phrases, or lines of the code, as data.
QUOTING = re.compile(
    r"^tests/(tidy/(test_)?words|mutants/(planted_\w+|joining|holding|afterwards|rare|together))\.py$"
)

_AFTER = "of|to|by|for|from|than|with|if|that|and|or|but|only|when|until|as|lets|shows?|knows?"
_VERBS = "ha[sd]|have|is|waits?|holds|computes|comes|came|leaves|left|joins|reads|takes|puts"
_END = r"(?=[.,;:)\]\0]| (?:and|or|that|which|in|for|with|to|is|are|by|at|as|from|on|of|so)\b|$)"
#: Phrase (a blank matches any white space) = what to write instead. `|` ends no phrase.
PHRASES = rf"""
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
\A[\s\0]*(?:what|how|from|whose?|which|whether)\b = a noun that names the contents
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
"""
LIST = [
    (re.compile(pattern.replace(" ?", r"\s*").replace(" ", r"\s+"), re.MULTILINE), instead)
    for pattern, _, instead in (one.rpartition(" = ") for one in PHRASES.strip().splitlines())
]

_PYTHON = re.compile(r'""".*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(#[^\n]*)', re.DOTALL)
_OTHER = re.compile(r"(--[^\n]*)")
_PAGE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*", re.DOTALL | re.MULTILINE)
_NAMES = re.compile(
    r"``[^`]+``|`[^`\n]+`|\]\([^)\s]*\)|\{[^}\n]*\}|\w+(?=\()|(?<!\S)--[\w-]+|\bb'[^'\n]*'|\bb\"[^\"\n]*\""
    # A report about another project, a key, a class of a style sheet, a module.
    r"|\[[\w-]+#\d+\]|\bholdfast:[\w:]+|\.\w+(?= \{)|\b[a-z_]+(?:\.[a-z_]+)+\b"
)
#: A string or a comment that is code: a statement, or the name of a statement.
_CODE = re.compile(
    r"\b(?:SELECT|FROM|AND|IN|ON|WHERE|ORDER BY|UPDATE|ALTER|CREATE|DROP)\b|^-- name: |^[\"']<\w"
    r"|\bfrom \S+ import |\bstring\.match"
    # The parameters of a test.
    r"|^\"\w+(?:, \w+)+\"$"
    # Rows of a table of verbs.
    r"|^\"(?:(?:[\w.*]+:[\w.*:,?]+|\$\w+)(?: |(?=\"$)))+\"$"
)


#: A program in a text of several lines.
_PROGRAM = re.compile(r"^\s*(?:import \w|from \S+ import |while True)|redis\.call", re.MULTILINE)
_TEST = re.compile(r"(?<=def )(?:test)?_*((?:[a-z0-9]+_){2,}[a-z0-9]+)(?=\()")


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
            if found[0].startswith('"""') and _PROGRAM.search(found[0]):
                said = False
            lines = "\0" + "\n" * found[0].count("\n")
            parts.append(found[0].strip("#:-\"'") if said else lines)
            done = found.end()
        text = "".join(parts)
    return _NAMES.sub(lambda name: "x" + "\n" * name[0].count("\n"), text).lower()


def hits(text: str, suffix: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, phrase and what to write instead."""
    if suffix == ".py":  # the names of tests and of cases of the kit
        named = {one[1]: text.count("\n", 0, one.start()) + 1 for one in _TEST.finditer(text)}
        for one, line in named.items():
            for _, phrase, instead in hits("x\n" + one.replace("_", " "), ".md"):
                yield line, phrase, instead
    text = prose(text, suffix)
    for pattern, instead in LIST:
        for found in pattern.finditer(text):
            phrase = " ".join(found[0].strip('\0 .;:(,!?*"').split())
            yield text.count("\n", 0, found.end()) + 1, phrase, instead


def sources() -> list[Path]:
    """Return every page, change note and source file of the project."""
    paths = [
        *PAGES,
        *(p for one in FOLDERS for p in files(".md", ".py", ".lua", ".sql", under=one)),
    ]
    return [path for path in paths if not QUOTING.match(relative(path))]


def listed(paths: list[Path]) -> list[str]:
    """Return each hit as a line: its place, the phrase, and what to write instead."""
    return [
        f"{relative(path)}:{line}: {phrase!r}; write: {instead}"
        for path in paths
        for line, phrase, instead in sorted(hits(path.read_text(encoding="utf-8"), path.suffix))
    ]


if __name__ == "__main__":
    print(*listed(sources()), sep="\n")
