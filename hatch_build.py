"""The README as a package index shows it; hatchling calls this when it builds the package.

An index has none of the project's files, and the project has no public address. There, links to
files would lead nowhere and pictures would be missing. So a link to a file becomes its text, and
the list of pages at the end names their paths in the source distribution.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: The section whose links become the paths of pages.
LIST = "## Documentation\n"
WHERE = (
    "These pages are in the source distribution (`pip download --no-binary holdfast holdfast`):\n"
)
_BLOCK = re.compile(r"(^```.*?^```\n)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n+", re.MULTILINE)
#: What begins with a scheme or with # works on an index as well.
_LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)")


def for_an_index(text: str) -> str:
    """The README without what needs the project's files.

    Code blocks stay as they are.
    """
    pages, end = text.partition(LIST)[::2]
    made = _each(pages, r"\1")
    return made + LIST + "\n" + WHERE + _each(end, r"\1 (`\2`)") if end else made


def _each(text: str, link: str) -> str:
    parts = _BLOCK.split(text)
    for at in range(0, len(parts), 2):
        parts[at] = _LINK.sub(link, _PICTURE.sub("", _COMMENT.sub("", parts[at])))
    return "".join(parts)


class Hook(MetadataHookInterface):
    """Gives the package its long description."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme``, which pyproject.toml calls dynamic."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}
