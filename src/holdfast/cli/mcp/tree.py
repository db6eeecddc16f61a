"""The options of ``holdfast mcp``."""

from __future__ import annotations

import argparse

from ...core import checks
from ...core.model import TTL_S_MAX
from ..options import checked, duration, owner, required, url

#: Seconds for which a hold lasts if the agent gives no time; the default maximum of that time.
LASTS_S, LONGEST_S = 600.0, 3600.0


def command(mcp: argparse.ArgumentParser) -> None:
    """Add the options of ``mcp``."""
    mcp.description = (
        "Serve an MCP client, such as a coding agent, on stdin and stdout. Its tools are list, "
        "acquire, renew, check, release and wait. Its holds are released when its session ends."
    )
    mcp.epilog = """\
in the configuration of a client:
  {"mcpServers": {"holdfast": {"command": "holdfast", "args": ["mcp"]}}}
"""
    mcp.add_argument(
        "--for", dest="lasts", metavar="DUR", type=duration(1.0, TTL_S_MAX), default=LASTS_S,
        help="length of a hold if the agent gives none (default 10m)",
    )  # fmt: skip
    mcp.add_argument(
        "--longest", metavar="DUR", type=duration(1.0, TTL_S_MAX), default=LONGEST_S,
        help="maximum length of a hold, from its last renewal (default 1h; at most 24h)",
    )  # fmt: skip
    mcp.add_argument(
        "--prefix", dest="prefixes", metavar="PREFIX", action="append", default=[],
        type=checked(checks.name),
        help="allow only names that begin with PREFIX; can be given several times",
    )  # fmt: skip
    owner(mcp, "host:process:mcp")
    mcp.add_argument(
        "--allow-break", action="store_true", help="add a tool that ends the hold of another owner"
    )
    required(mcp)
    url(mcp)
