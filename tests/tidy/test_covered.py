"""A contract or a rule that covers nothing fails: otherwise no text could break it."""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from tests.tidy import covered
from tests.tidy.tree import ROOT, SRC, files

MODULES = {
    "holdfast",
    *(module.name for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")),
}
LINTER: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "tool"
]["importlinter"]
CONTRACTS = {one["name"]: one for one in LINTER["contracts"]}


def expressions(contract: dict[str, Any]) -> Iterator[str]:
    """Return every module, or pattern of modules, that a contract names."""
    for key in ("source_modules", "forbidden_modules", "modules", "containers", "ancestors"):
        yield from contract.get(key, ())
    for line in contract.get("ignore_imports", ()):
        yield from (side.strip() for side in line.split("->"))
    for layer in contract.get("layers", ()):
        names = (name.strip() for name in layer.replace("|", ":").split(":"))
        yield from (f"{container}.{name}" for container in contract["containers"] for name in names)


def lacking(
    contract: dict[str, Any], golden: dict[str, set[str] | int], modules: set[str]
) -> Iterator[str]:
    """Return the differences between a contract and its golden list."""
    named = set(expressions(contract))
    for expression in sorted(named):
        found = covered.matching(expression, modules)
        wanted = golden.get(expression, {expression})
        if isinstance(wanted, int) and len(found) < wanted:
            yield f"{expression} names only {len(found)} modules, not {wanted}"
        if isinstance(wanted, set) and found != wanted:
            yield f"{expression} names {sorted(found)}, not {sorted(wanted)}"
    for expression in sorted(golden.keys() - named):
        yield f"{expression} is no longer in the contract"


def test_each_contract_has_a_golden_list() -> None:
    assert CONTRACTS.keys() == covered.CONTRACTS.keys(), "write it into tests/tidy/covered.py"


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_contract_covers_what_it_is_for(name: str) -> None:
    assert list(lacking(CONTRACTS[name], covered.CONTRACTS[name], MODULES)) == []


def test_every_file_of_the_package_is_a_module_that_contracts_can_see() -> None:
    # A folder without __init__.py is left out of the graph, silently
    paths = {
        ".".join(path.relative_to(SRC.parent).with_suffix("").parts)
        for path in files(".py", under=SRC)
    }
    assert {path.removesuffix(".__init__") for path in paths} == MODULES


def test_every_store_and_dialect_is_named() -> None:
    for folder, known in (("stores", covered.STORES), ("dialects", covered.DIALECTS)):
        found = {path.parent.name for path in (SRC / folder).glob("*/__init__.py")}
        assert found == known, "write it into tests/tidy/covered.py"


@pytest.mark.parametrize(
    "key, planted, told",
    [
        ("modules", ["holdfast.shops.*"], "holdfast.shops.* names []"),
        ("source_modules", ["holdfast.cores"], "holdfast.cores names []"),
        ("ignore_imports", ["holdfast.shops.** -> holdfast.core.model"], "holdfast.shops.** names"),
        ("layers", ["core", "eroors"], "holdfast.eroors names []"),
    ],
)
def test_a_planted_wildcard_that_matches_nothing_is_found(
    key: str, planted: list[str], told: str
) -> None:
    found = list(lacking({"containers": ["holdfast"], key: planted}, {}, MODULES))
    assert [one for one in found if one.startswith(told)], found


def test_a_planted_store_that_the_contract_has_lost_is_found() -> None:
    name = "stores don't know each other"
    less = {one for one in MODULES if one != "holdfast.stores.redis"}
    assert list(lacking(CONTRACTS[name], covered.CONTRACTS[name], less))
    assert list(lacking({"modules": []}, covered.CONTRACTS[name], MODULES))


def test_a_planted_rule_that_looks_at_nothing_is_found() -> None:
    with pytest.raises(AssertionError, match="only 0 were looked at"):
        covered.enough("pure files", [])
