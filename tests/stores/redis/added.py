"""The rights that the page of Redis adds for one use, such as queues."""

from __future__ import annotations

import re

from tests.stores.redis.test_rights import PAGE


def added(title: str) -> list[str]:
    """Return the rights below this title, as words."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {title} -->\n```\n(.*?)```", text, re.DOTALL)
    assert found, f"the page shows no {title}"
    return found[1].split()
