"""Cached methods: a method that is called through an object is also invalidated through it."""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Client, ConfigError
from tests.faced import At

prices = {"book": 12, "pen": 3}
shelf = Client(f"memory://{os.urandom(8).hex()}")


class Shop:
    """An object with cached prices, in a module so that it can be pickled."""

    name = "corner"

    @shelf.cached("price:{sku}", ttl=60, vary=("sku",))
    def price(self, sku: str = "book") -> int:
        """What it costs."""
        return prices[sku]


@pytest.fixture(autouse=True)
def as_before() -> None:
    prices.update(book=12, pen=3)
    Shop.price.guard.invalidate("price:book", "price:pen")


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(f"memory://{os.urandom(8).hex()}") as made:
        yield made


def test_an_object_invalidates_what_it_was_asked_for_and_nothing_else() -> None:
    shop = Shop()
    assert (shop.price("pen"), shop.price()) == (3, 12)
    prices.update(book=15, pen=5)
    assert shop.price.invalidate("pen") == 1
    assert (shop.price("pen"), shop.price()) == (5, 12)
    assert Shop.price.invalidate(shop) == 1
    assert shop.price() == 15


def test_without_its_object_nothing_is_invalidated() -> None:
    shop: Any = Shop()
    shop.price("pen"), shop.price()
    with pytest.raises(ConfigError, match=r"Shop\.price\.invalidate.*'self'.*by an object"):
        type(shop).price.invalidate("pen")
    with pytest.raises(ConfigError, match="'self'"):
        type(shop).price.invalidate(sku="pen")
    prices.update(book=15, pen=5)
    assert (shop.price("pen"), shop.price()) == (3, 12)


def test_methods_of_several_objects_don_t_share_values(client: Client) -> None:
    class Store:
        def __init__(self, name: str) -> None:
            self.name = name

        @client.cached("one:{self.name}:{sku}", ttl=60)
        def price(self, sku: str) -> list[str]:
            return [self.name, sku]

    first, second = Store("a"), Store("b")
    assert [first.price("x"), second.price("x")] == [["a", "x"], ["b", "x"]]
    assert first.price.invalidate("x") == 1
    fresh = [Store.price.guard.inspect(key).fresh_in > 0 for key in ("one:a:x", "one:b:x")]
    assert fresh == [False, True]
    assert Store.price.invalidate(self=second, sku="x") == 1


def test_class_and_static_methods_are_invalidated_like_their_calls(client: Client) -> None:
    class Store:
        @client.cached("of:{cls.__name__}:{sku}", ttl=60)
        @classmethod
        def over(cls, sku: str = "x") -> str:
            return cls.__name__ + sku

        @staticmethod
        @client.cached("static:{sku}", ttl=60)
        def free(sku: str) -> str:
            return sku

        @client.cached("static2:{sku}", ttl=60)
        @staticmethod
        def other(sku: str) -> str:
            return sku

    class Branch(Store):
        """Another class with the same method."""

    of: Any
    for of in (Store, Branch, Store(), Branch()):
        name = of.__name__ if isinstance(of, type) else type(of).__name__
        assert of.over("x") == of.over() == f"{name}x"
        assert (of.over.invalidate("x"), of.over.invalidate()) == (1, 0)
        assert of.free("x") == of.other("x") == "x"
        assert (of.free.invalidate("x"), of.free.invalidate("x")) == (1, 0)
        assert of.other.invalidate("x") == 1


def test_a_class_method_that_is_not_bound_refuses_to_guess_its_class(client: Client) -> None:
    def price(cls: type, sku: str = "x") -> str:
        return cls.__name__ + sku

    found: Any = client.cached("of:{cls.__name__}:{sku}", ttl=60)(price)
    assert found(int) == "intx"
    with pytest.raises(ConfigError, match="@classmethod"):
        found.invalidate("x")
    assert found.invalidate(int, "x") == 1


def test_a_bound_method_has_the_attributes_of_its_function(client: Client) -> None:
    shop = Shop()
    bound: Any = shop.price
    assert (bound.__name__, bound.__wrapped__.__doc__) == ("price", "What it costs.")
    assert str(inspect.signature(bound)) == "(sku: 'str' = 'book') -> 'int'"
    assert str(inspect.signature(Shop.price)) == "(self, sku: 'str' = 'book') -> 'int'"
    assert bound == shop.price != Shop().price
    assert hash(bound) == hash(shop.price)
    assert bound.guard is Shop.price.guard
    assert all("Shop.price" in repr(one) for one in (bound, Shop.price))


def test_a_cached_function_is_copied_and_pickled_as_a_function_is() -> None:
    assert pickle.loads(pickle.dumps(Shop.price)) is Shop.price
    assert copy.copy(Shop.price) is Shop.price is copy.deepcopy(Shop.price)
    assert pickle.loads(pickle.dumps(Shop().price))("pen") == 3


async def test_methods_of_asyncio_are_invalidated_by_their_objects(aio: At) -> None:
    client = aio.client()

    class Store:
        @client.cached("price:{sku}", ttl=60, vary=("sku",))
        async def price(self, sku: str = "book") -> int:
            return prices[sku]

    store: Any = Store()
    assert asyncio.iscoroutinefunction(Store.price)
    assert (await store.price("pen"), await store.price()) == (3, 12)
    prices.update(book=15, pen=5)
    assert await store.price.invalidate("pen") == 1
    assert (await store.price("pen"), await store.price()) == (5, 12)
    assert await Store.price.invalidate(store) == 1
    with pytest.raises(ConfigError, match="'self'"):
        await type(store).price.invalidate("pen")
