"""Names from the arguments of a call: fields are checked once, and filled for each call."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import ConfigError
from holdfast.core.template import filler


def book(user_id: int, kind: str = "fee", *rest: int, **named: str) -> None:
    """The function whose arguments are used."""


@pytest.mark.parametrize(
    "template, name",
    [
        ("plain", "plain"),
        ("user:{user_id}", "user:7"),
        ("{kind}/{user_id:03}", "fee/007"),
        ("{user_id!r}{kind!r}", "7'fee'"),
        ("{rest}", "()"),
        ("{named}", "{}"),
        ("{{user_id}}", "{user_id}"),
        ("{user_id.real}", "7"),
    ],
)
def test_fields_are_filled(template: str, name: str) -> None:
    assert filler(template, book)(7) == name
    assert filler(template, book)(user_id=7) == name


@pytest.mark.parametrize("template", ["{user}", "{}", "{0}", "{user_id", "}", "{x.user_id}"])
def test_a_field_that_can_not_be_filled_is_refused_at_once(template: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        filler(template, book)
    assert repr(template) in str(refusal.value)


def test_a_wrong_field_is_named_with_the_arguments_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'user'.*book\(user_id.*kind.*named"):
        filler("{user}", book)


def test_what_is_no_function_of_python_has_a_signature_or_none() -> None:
    class Callable:
        def __call__(self, order: int) -> None: ...

    assert filler("o:{order}", Callable())(3) == "o:3"


def test_wrong_arguments_fail_as_the_function_itself_would() -> None:
    fill: Any = filler("{user_id}", book)
    with pytest.raises(TypeError, match="user_id"):
        fill()
