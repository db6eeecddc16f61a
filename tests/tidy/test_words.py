"""The word list has fewer and fewer hits, and it finds planted phrases."""

from __future__ import annotations

import pytest

from tests.tidy import words

#: One phrase for each pattern.
PHRASES = (
    "who waits|without end|his|is over|lanes|prolong|one who|all there is|anew|duties|errand"
    "|weather|teller|nursery|as a rule|given it back|gate|goes on|in vain|keeper|lets nobody"
    "|mended|seldom|nouns|of its own|on loan|patience|poked|so long|so many|speaks|struck"
    "|took back|taken in|those who|to be had|tomb|tracks|whoever|wishes|world"
    "|any more|as it stands|beside|for people|from now on|has it|hears|nobody|says|somebody"
    "|sooner|stands in|told"
)
PLANTED = {
    "in a page": ("# A\n\nIt goes\non.\n", ".md", 4),
    "in a docstring": ('def f():\n    """It goes on."""\n', ".py", 2),
    "in a comment of two lines": ("x = 1\n# It goes\n# on.\n", ".py", 3),
    "in a message": ("x = 1\nlog('it goes on')\n", ".py", 2),
    "in a script": ("local x = 1\n-- it goes on\n", ".lua", 2),
}
INNOCENT = {
    "a name in a page": ("See `keeper.py` and [this](keeper.md).\n\n```\nkeeper\n```\n", ".md"),
    "a name in a source": ("keeper = f('keeper')  # `keeper`\n", ".py"),
    "a row of verbs": ("x = Row('a')\ny = \"wish.id:t keeper*patience:us $tomb \"\n", ".py"),
    "who after a noun": ("# The client\n# who waits\n", ".py"),
    "a number": ("The file is over 600 lines.\n", ".md"),
}


def test_the_words_become_fewer() -> None:
    now, most = words.found(), words.recorded()
    assert len(now) > 550
    worse, risen = [], set()
    for area in (True, False):
        paths = [path for path in {*now, *most} if path.startswith("src/") == area]
        for one in (0, 1):
            total = sum(words.count(now.get(path, []))[one] for path in paths)
            if total > sum(most.get(path, (0, 0))[one] for path in paths):
                risen |= {(path, one) for path in paths}
    for path, lines in now.items():
        for line, name, phrase, instead in lines:
            one = "AB".index(name)
            more = words.count(lines)[one] > most.get(path, (0, 0))[one]
            if more and ((path, one) in risen or most.get(path, (0, 0))[one] == 0):
                worse.append(f"{path}:{line}: {phrase!r} ({name}); write: {instead}")
    assert not worse, "\n".join(["", *worse])


def test_every_pattern_has_its_phrase() -> None:
    names = [{name for _, name, _, _ in words.hits(phrase, ".md")} for phrase in PHRASES.split("|")]
    assert all(names)


@pytest.mark.parametrize("text, suffix, line", PLANTED.values(), ids=PLANTED)
def test_a_planted_phrase_is_found(text: str, suffix: str, line: int) -> None:
    assert [one[:3] for one in words.hits(text, suffix)] == [(line, "A", "goes on")]


@pytest.mark.parametrize("text, suffix", INNOCENT.values(), ids=INNOCENT)
def test_what_is_allowed_is_left_alone(text: str, suffix: str) -> None:
    assert list(words.hits(text, suffix)) == []
