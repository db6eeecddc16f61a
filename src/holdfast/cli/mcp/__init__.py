"""``holdfast mcp``: locks for coding agents, over the Model Context Protocol."""

from __future__ import annotations

import argparse
import gc
import os

from ...core.drivers import needed


def mcp(options: argparse.Namespace) -> int:
    """Serve one agent until its session ends; return the exit status."""
    with needed("`holdfast mcp`"):
        from .server import serve
    try:
        os.read(0, 0)
    except OSError:
        return 0  # stdin is closed: there is no session
    gc.enable()  # the server runs for a long time
    return serve(options)
