"""``holdfast mcp``: locks for coding agents, over the Model Context Protocol."""

from __future__ import annotations

import argparse
import gc
import os

from ...errors import ConfigError


def mcp(options: argparse.Namespace) -> int:
    """Serve one agent until its session ends; return the exit status."""
    try:
        from .server import serve
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("mcp"):
            raise
        raise ConfigError(
            "`holdfast mcp` needs the SDK of the protocol: pip install 'holdfast[mcp]'"
        ) from None
    try:
        os.read(0, 0)
    except OSError:
        return 0  # stdin is closed: there is no session
    gc.enable()  # it runs for a long time
    return serve(options)
