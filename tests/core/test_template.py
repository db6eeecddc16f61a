"""Names from the arguments of a call: fields are checked once, and filled for each call."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import ConfigError
from holdfast.core.template import filler, keys


def book(user_id: int, kind: str = "fee", *rest: int, **named: str) -> None:
    """The function whose arguments are used."""


def test_fields_are_filled_by_position_and_by_name() -> None:
    for template, name in (("{user_id!r}{kind!r}", "7'fee'"), ("{rest}{named}", "(){}")):
        assert filler(template, book)(7) == filler(template, book)(user_id=7) == name


def test_a_wrong_field_is_named_with_the_arguments_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'user'.*book\(user_id.*kind.*named"):
        filler("{user}", book)


def test_what_is_no_function_of_python_has_a_signature_or_none() -> None:
    class Callable:
        def __call__(self, order: int) -> None: ...

    assert filler("o:{order}", Callable())(3) == "o:3"


@pytest.mark.parametrize("seam", ["%", "2", "5A", "%20"])
def test_what_an_escape_consists_of_marks_no_end_of_a_field(seam: str) -> None:
    with pytest.raises(ConfigError, match="alone between two fields"):
        keys("{a}" + seam + "{b}", lambda a, b: None, None)


@pytest.mark.parametrize("seam", ["%:", "2x", ":%", "é", "x", "a:b%"])
def test_no_two_calls_have_one_key_whatever_their_arguments_contain(seam: str) -> None:
    fill = keys("{a}" + seam + "{b}", lambda a, b: None, None)
    parts = ["", *seam, seam, "%", "%25", "25", f"%{ord(seam[0]):02X}", f"{ord(seam[0]):02X}"]
    texts = sorted({one + other for one in parts for other in parts})
    calls = [(one, other) for one in texts for other in texts]
    assert len({fill(*call) for call in calls}) == len(calls)


class Tenant:
    """An object whose text contains only its address."""

    def __init__(self, tenant_id: int) -> None:
        self.tenant_id = tenant_id


@pytest.mark.parametrize(
    "template", ["{user_id}", "{user_id!r}", "{user_id!r:.9}", "a{user_id!s}b", "{rest}", "{kind}"]
)
def test_an_address_in_memory_is_no_name(template: str) -> None:
    tenant: Any = Tenant(7)
    fill: Any = filler(template, book)
    given = (1, tenant.__init__) if "kind" in template else (tenant, "fee", tenant)
    with pytest.raises(ConfigError, match=r"address in memory.*Write '\{.*an attribute") as refusal:
        fill(*given)
    if "user_id" in template:
        assert "'{user_id.tenant_id}'" in str(refusal.value)


def test_no_address_in_memory_becomes_a_key() -> None:
    fill: Any = keys("{kind}:{user_id}", book, ("kind", "user_id"))
    with pytest.raises(ConfigError, match=r"\{user_id.tenant_id\}"):
        fill(Tenant(7))
    assert keys("{kind}:{user_id.tenant_id}", book, ("kind", "user_id"))(Tenant(7)) == "fee:7"


def test_a_text_that_looks_like_an_address_is_a_text() -> None:
    fill: Any = filler("{kind}{kind!r}", book)
    assert fill(1, "<T object at 0x7f>") == "<T object at 0x7f>'<T object at 0x7f>'"


def test_the_error_for_a_method_names_an_attribute_of_its_object() -> None:
    class Shop:
        def price(self, sku: str) -> str:
            return sku

    with pytest.raises(ConfigError, match=r"Write 'price:\{sku\}:\{self.id\}'"):
        keys("price:{sku}", Shop.price, None)
