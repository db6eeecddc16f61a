"""``python -m holdfast.testing COMMAND``: torture a store, run the simulator, judge histories."""

from __future__ import annotations

import importlib
import sys

#: The module of each command.
COMMANDS = {"torture": "torture.command", "judge": "histories.command", "sim": "simulator.campaign"}


def main(argv: list[str]) -> int:
    """Run the command and return its exit status; return 64 if no command has this name."""
    if not argv or argv[0] not in COMMANDS:
        print(f"usage: python -m holdfast.testing {'|'.join(COMMANDS)} ...", file=sys.stderr)
        return 0 if argv in (["-h"], ["--help"]) else 64
    try:
        module = importlib.import_module(f"{__package__}.{COMMANDS[argv[0]]}")
    except ModuleNotFoundError as missing:  # the wheel contains no simulator
        if not f"{missing.name}.".startswith(f"{__package__}.simulator."):
            raise
        print(f"{argv[0]} needs a checkout of holdfast: run ./dev {argv[0]} there", file=sys.stderr)
        return 69
    code: int = module.main(argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
