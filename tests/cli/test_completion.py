"""Completion: made from the tree, and asked for as a shell asks for it."""

from __future__ import annotations

import argparse
import shutil
import subprocess

import pytest

from holdfast.cli import parser
from holdfast.cli.tree import children
from tests.cli.world import World

needs_zsh = pytest.mark.skipif(not shutil.which("zsh"), reason="zsh isn't here")
needs_fish = pytest.mark.skipif(not shutil.which("fish"), reason="fish isn't here")


def flags(command: str) -> set[str]:
    of: argparse.ArgumentParser = children(parser())[command]
    return {flag for action in of._actions for flag in action.option_strings}


def bash(world: World, line: str) -> list[str]:
    """What bash offers at the end of a line."""
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


def test_bash_offers_the_commands(world: World) -> None:
    assert set(bash(world, "holdfast ")) == {*children(parser()), "--help", "--version"}
    assert bash(world, "holdfast sh") == ["show"]


@pytest.mark.parametrize("command", list(children(parser())))
def test_bash_offers_every_option_of_every_command(world: World, command: str) -> None:
    assert set(bash(world, f"holdfast {command} -")) == flags(command)


def test_bash_offers_the_names_that_are_held_quoted(world: World) -> None:
    world.holding(name="nightly")
    world.holding(name="night watch; rm x")
    for command in ("run", "show", "break", "ls", "run -w 5", "show --json"):
        assert bash(world, f"holdfast {command} nig") == [r"night\ watch\;\ rm\ x", "nightly"]
    assert bash(world, f"holdfast show --url {world.url} nightl") == ["nightly"]
    assert bash(world, "holdfast show --url sqlite:///no/such/place nig") == [""]


def test_bash_offers_commands_and_files_for_what_is_to_be_run(world: World) -> None:
    tool = world.path("bin") / "a-tool-of-ours"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for line in ("run job a-tool-of", "run -n job a-tool-of", "run job -- a-tool-of"):
        assert bash(world, f"holdfast {line}") == ["a-tool-of-ours"]
    assert str(tool) in bash(world, f"holdfast run job -- cat {world.path('bin')}/a-to")
    assert "-n" not in bash(world, "holdfast run job -- a-tool-of-ours -")


def test_bash_offers_the_verbs_of_queues_and_their_options(world: World) -> None:
    verbs = children(children(parser())["queue"])
    assert set(bash(world, "holdfast queue ")) == set(verbs)
    assert bash(world, "holdfast queue pur") == ["purge"]
    for verb, of in verbs.items():
        offered = {flag for action in of._actions for flag in action.option_strings}
        assert set(bash(world, f"holdfast queue {verb} -")) == offered
    assert "true" in bash(world, "holdfast queue work jobs -- tru")
    world.client.queue("nightly jobs").put("one")
    assert bash(world, "holdfast queue show nigh") == [r"nightly\ jobs"]


def test_bash_offers_the_shells(world: World) -> None:
    assert bash(world, "holdfast completion ") == ["bash", "zsh", "fish"]


@needs_fish
def test_fish_offers_commands_options_and_names(world: World) -> None:
    world.holding(name="nightly")

    def fish(line: str) -> set[str]:
        script = f"holdfast completion fish | source; complete -C '{line}'"
        done = subprocess.run(["fish", "-c", script], env=world.env, capture_output=True, text=True)
        assert done.stderr == ""
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    assert set(children(parser())) <= fish("holdfast ")
    for command in children(parser()):
        assert {flag for flag in flags(command) if flag[:2] == "--"} <= fish(
            f"holdfast {command} --"
        )
    verbs = children(children(parser())["queue"])
    assert set(verbs) <= fish("holdfast queue ")
    for verb in verbs:
        assert "--url" in fish(f"holdfast queue {verb} --")
    assert "--semaphore" not in fish("holdfast queue work --")
    assert "--watch" not in fish("holdfast queue ls --")
    assert {"ls", "show", "invalidate"} <= fish("holdfast guard ")
    assert "--names" in fish("holdfast guard ls --")
    world.client.queue("nightly-jobs").put("one")
    assert "nightly-jobs" in fish("holdfast queue show night")
    assert "nightly" in fish("holdfast show nig")
    assert "nightly" in fish("holdfast run nig")


@needs_zsh
def test_zsh_takes_the_script(world: World) -> None:
    script = (
        "autoload -Uz compinit && compinit -u && source <(holdfast completion zsh) &&"
        "whence -w _holdfast"
    )
    done = subprocess.run(["zsh", "-fc", script], env=world.env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("_holdfast: function\n", "")


@needs_zsh
def test_zsh_offers_commands_options_and_names(world: World) -> None:
    from tests.cli.terminal import Terminal

    world.holding(name="nightly")
    world.client.queue("nightly-jobs").put("one")
    terminal = Terminal({**world.env, "TERM": "dumb"}, str(world.folder))
    try:
        terminal.enter("PS1='zsh> ' zsh -f")
        terminal.expect("zsh> ")
        terminal.enter(
            "autoload -Uz compinit && compinit -u; source <(holdfast completion zsh); echo done"
        )
        terminal.expect("\ndone\n")
        for line, offered in {
            "holdfast sho\t": "show ",
            "holdfast show nig\t": "nightly",
            "holdfast ls --js\t": "--json ",
            "holdfast run --sem\t": "--semaphore ",
            "holdfast queue pur\t": "purge ",
            "holdfast queue work --concurr\t": "--concurrency ",
            "holdfast queue show nightly-j\t": "nightly-jobs",
            "holdfast guard inv\t": "invalidate ",
            "holdfast guard ls --nam\t": "--names ",
        }.items():
            terminal.press(line)
            terminal.expect(offered)
            terminal.press("\x15")
    finally:
        terminal.end()


def test_a_planted_option_shows_up_in_every_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts are made from the tree, so they can't drift from it."""
    from holdfast.cli import completion, tree

    def planted(of: argparse.ArgumentParser) -> None:
        of.add_argument("--planted-flag", help="planted: for [this] test")

    monkeypatch.setitem(tree.COMMANDS, "planted", (planted, "a planted command"))
    made = list(completion.commands())
    for script in (completion.bash, completion.zsh, completion.fish):
        text = "\n".join(script(made))
        assert "planted-flag" in text
        assert "a planted command" in text or script is completion.bash
