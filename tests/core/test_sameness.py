"""Two functions can share the values of a guard only if they compute the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from holdfast import Client, ConfigError
from holdfast.core.sameness import same

MODULE = """
def plain(x):
    return {value}

def factory(n):
    def inner(x):
        return x + n
    return inner

made = factory({value})
short = lambda x: x + 1

class Some:
    def method(self, x):
        return x

def wraps(function):
    import functools
    @functools.wraps(function)
    def wrapper(x):
        return function(x)
    return wrapper

wrapped = wraps(plain)
"""


def loaded(value: int = 1) -> ModuleType:
    """Return a module, as if it had just been imported or reloaded."""
    module = ModuleType("planted")
    exec(MODULE.format(value=value), vars(module))
    return module


def factory(value: Any, default: Any = None) -> Callable[[int], Any]:
    def inner(x: int, more: Any = default) -> Any:
        return [value, x, more]

    return inner


def recursive(value: int) -> Callable[[int], Any]:
    def inner(x: int) -> Any:
        return inner(x - 1) if x else value

    return inner


Some = loaded().Some


@pytest.mark.parametrize("name", ["plain", "made", "short", "wrapped", "Some.method"])
def test_what_a_reload_makes_of_a_function_is_the_same(name: str) -> None:
    find = functools.partial(functools.reduce, getattr, name.split("."))
    first: Any = find(loaded())
    assert same(first, first)
    assert same(first, find(loaded()))


def test_a_function_of_a_module_may_be_edited_before_a_reload() -> None:
    assert same(loaded(1).plain, loaded(2).plain)


PAIRS = {
    "a factory with other variables": (factory(1), factory(2)),
    "a factory with other defaults": (factory(1, 2), factory(1, 3)),
    "values that are equal and of other types": (factory(1), factory(True)),
    "objects that are only alike": (factory(object()), factory(object())),
    "functions in variables": (factory(factory(1)), factory(factory(2))),
    "functions that call themselves": (recursive(1), recursive(2)),
    "lambdas": (lambda x: x, lambda x: x + 1),
    "partial functions": (functools.partial(factory, 1), functools.partial(factory, 2)),
    "partial functions of two functions": (
        functools.partial(factory(1), 2),
        functools.partial(factory(2), 2),
    ),
    "partial functions with other keywords": (
        functools.partial(factory, value=1),
        functools.partial(factory, value=2),
    ),
    "partial functions with more keywords": (
        functools.partial(factory, 1),
        functools.partial(factory, 1, default=2),
    ),
    "methods of two objects": (Some().method, Some().method),
    "wrappers of two functions": (loaded().wraps(loaded().made), loaded().wraps(factory(1))),
    "functions of a module": (loaded().plain, loaded().factory),
}


@pytest.mark.parametrize("one, other", PAIRS.values(), ids=PAIRS)
def test_what_computes_other_values_is_not_the_same(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert same(one, one)


MAKES: dict[str, Callable[[], Any]] = {
    "a factory": lambda: factory(1),
    "variables that are equal": lambda: factory([1, "two"], {"three": 3}),
    "one that calls itself": lambda: recursive(1),
    "a partial function": lambda: functools.partial(Some.method, x=1),
    "a partial function of a factory": lambda: functools.partial(factory(1), 2),
}


@pytest.mark.parametrize("make", MAKES)
def test_what_is_made_twice_of_the_same_is_the_same(make: str) -> None:
    assert same(MAKES[make](), MAKES[make]())


def test_two_functions_of_one_factory_never_get_each_others_values() -> None:
    with Client("memory://sameness") as client:
        cached = client.cached("shared:{x}", ttl=60, vary=("x",))
        first = cached(factory(1))
        assert first(5) == [1, 5, None]
        with pytest.raises(ConfigError, match="a separate template"):
            cached(factory(2))
        assert cached(factory(1))(5) == [1, 5, None]
