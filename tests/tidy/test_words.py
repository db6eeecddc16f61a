"""No phrase of the word list is used, and the list finds planted phrases."""

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
    "|sooner|stands in|told|what it is"
)
PLANTED = {
    "in a page": ("# A\n\nIt goes\non.\n", ".md", 4),
    "in a docstring": ('def f():\n    """It goes on."""\n', ".py", 2),
    "in a comment of two lines": ("x = 1\n# It goes\n# on.\n", ".py", 3),
    "in a message": ("x = 1\nlog('it goes on')\n", ".py", 2),
    "in the name of a test": ("def test_it_goes_on_here():\n    pass\n", ".py", 1),
    "in a script": ("local x = 1\n-- it goes on\n", ".lua", 2),
}
INNOCENT = {
    "a name in a page": ("See `keeper.py` and [this](keeper.md).\n\n```\nkeeper\n```\n", ".md"),
    "a name in a source": ("keeper = f('keeper')  # `keeper`\n", ".py"),
    "a row of verbs": ("x = Row('a')\ny = \"wish.id:t keeper*patience:us $tomb \"\n", ".py"),
    "who after a noun": ("# The client\n# who waits\n", ".py"),
    "a program": ('x = """\nimport os\n# It goes on.\n"""\n', ".py"),
    "the parameters of a test": ('@parametrize("words, told", X)\n', ".py"),
    "a number": ("The file is over 600 lines.\n", ".md"),
}


def test_no_phrase_of_the_list_is_used() -> None:
    paths = words.sources()
    assert len(paths) > 1500
    listed = words.listed(paths)
    assert not listed, "\n".join(["", *listed])


def test_every_pattern_has_its_phrase() -> None:
    assert all([*words.hits(phrase, ".md")] for phrase in PHRASES.split("|"))
    found = [pattern for pattern, _ in words.LIST if any(map(pattern.search, PHRASES.split("|")))]
    assert found == [pattern for pattern, _ in words.LIST]


@pytest.mark.parametrize("text, suffix, line", PLANTED.values(), ids=PLANTED)
def test_a_planted_phrase_is_found(text: str, suffix: str, line: int) -> None:
    assert [one[:2] for one in words.hits(text, suffix)] == [(line, "goes on")]


@pytest.mark.parametrize("text, suffix", INNOCENT.values(), ids=INNOCENT)
def test_what_is_allowed_is_left_alone(text: str, suffix: str) -> None:
    assert list(words.hits(text, suffix)) == []
