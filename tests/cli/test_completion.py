"""Completion: the words that ``holdfast _complete`` offers, and the same words in each shell."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from holdfast.cli import main, parser
from tests.cli.terminal import Terminal
from tests.cli.world import World
from tests.tidy.test_commands import commands, flags

needs_zsh = pytest.mark.skipif(not shutil.which("zsh"), reason="zsh isn't here")
needs_fish = pytest.mark.skipif(not shutil.which("fish"), reason="fish isn't here")

TREE = {name.partition(" ")[2]: of for name, of in commands(parser())}
TOP = {name.split()[0] for name in TREE}
VERBS = {name.removeprefix("queue ") for name in TREE if name.startswith("queue ")}
PLACES = {
    "sh": ("words", TOP),
    "queue": ("words", TOP),
    "queue pur": ("words", VERBS),
    "completion ": ("words", {"bash", "zsh", "fish"}),
    "schema ": ("words", {"mysql", "postgres"}),
    "queue work q --interval-from ": ("words", {"ack", "take"}),
    "queue put q ": ("words", set()),
    "no such ": ("words", set()),
    "run -w ": ("words", set()),
    "acquire --token-file ": ("files", set()),
    "run job ": ("command 3", set()),
    "run -nw 5 -- job ": ("command 6", set()),
    "run job -- make -": ("command 4", set()),
    "queue work jobs make -": ("command 4", set()),
}


def offered(capsys: pytest.CaptureFixture[str], line: str) -> tuple[str, set[str]]:
    """Return the kind and the words that are offered for the last word of a line."""
    assert main(["_complete", *line.split(" ")]) == 0
    kind, *words = capsys.readouterr().out.splitlines()
    return kind, {word.partition("\t")[0] for word in words}


@pytest.mark.parametrize("line", PLACES)
def test_each_place_has_its_words(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert offered(capsys, line) == PLACES[line]


def test_every_option_of_every_command_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert {name: offered(capsys, f"{name} -")[1] for name in TREE} == {
        name: flags(of) | {"-h", "--help"} for name, of in TREE.items()
    }
    assert offered(capsys, "-") == ("words", {"-h", "--help", "--version"})


def bash(world: World, line: str) -> list[str]:
    """Return the words that bash offers at the end of a line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
    source <(holdfast completion bash)
    complete -p holdfast >/dev/null || exit 1
    COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}
    _holdfast && printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], env=world.env, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_bash_offers_commands_options_and_names_quoted(world: World) -> None:
    world.holding(name="nightly")
    world.holding(name="night watch; rm x")
    world.client.queue("nightly jobs").put("one")
    assert bash(world, "holdfast sho") == ["show"]
    assert bash(world, "holdfast guard ls --n") == ["--names"]
    for command in ("run", "ls", "acquire --all x", "show --json"):
        assert bash(world, f"holdfast {command} nig") == [r"night\ watch\;\ rm\ x", "nightly"]
    assert bash(world, "holdfast queue show nigh") == [r"nightly\ jobs"]
    assert bash(world, f"holdfast show --url {world.url} nightl") == ["nightly"]
    assert bash(world, "holdfast show --url sqlite:///no/such/place nig") == [""]


def test_bash_offers_commands_and_files_for_what_is_to_be_run(world: World) -> None:
    tool = world.path("bin") / "a-tool-of-ours"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for line in ("run job a-tool-of", "queue work -q job -- a-tool-of"):
        assert bash(world, f"holdfast {line}") == ["a-tool-of-ours"]
    for line in ("run job -- cat", "release --token-file"):
        assert str(tool) in bash(world, f"holdfast {line} {world.path('bin')}/a-to")


#: What is typed, and the words that fish and zsh offer for it.
TYPED = {
    "holdfast sho": "show",
    "holdfast queue show --st": "--state",
    "holdfast run nig": "nightly",
    "holdfast run job -- holdfast queue pur": "purge",
    "holdfast release --token-file b": "bin/",
}


@needs_fish
def test_fish_offers_commands_options_and_names(world: World) -> None:
    world.holding(name="nightly")
    for line, word in TYPED.items():
        script = f"holdfast completion fish | source; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "-c", script], env=world.env, cwd=world.folder, capture_output=True, text=True
        )
        said = [one.partition("\t")[0] for one in done.stdout.splitlines()]
        assert (said, done.stderr) == ([word], "")


@needs_zsh
def test_zsh_offers_commands_options_and_names(world: World) -> None:
    world.holding(name="nightly")
    terminal = Terminal({**world.env, "TERM": "dumb"}, str(world.folder))
    try:
        terminal.enter("PS1='zsh> ' zsh -f")
        terminal.expect("zsh> ")
        terminal.enter(
            "autoload -Uz compinit && compinit -u; source <(holdfast completion zsh); echo done"
        )
        terminal.expect("\ndone\n")
        for line, word in TYPED.items():
            terminal.press(line + "\t")
            terminal.expect(word + ("" if word in ("nightly", "bin/") else " "))
            terminal.press("\x15")
    finally:
        terminal.end()
