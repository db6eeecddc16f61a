"""A function or method behind a guard: the common part for threads and asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ..decorated import shown
from ..template import keys

if TYPE_CHECKING:
    from .guard import GuardBase


class CachedBase:
    """A cached function. In a class it becomes a method, as plain functions do."""

    #: The classes in which this function is a method.
    _owners: tuple[type, ...] = ()
    _function: Callable[..., Any]

    def __init__(
        self,
        guard: GuardBase,
        template: str,
        function: Any,
        vary: Iterable[str] | None,
        awaits: bool = True,
    ) -> None:
        inner: Any = (
            function.__func__ if isinstance(function, classmethod | staticmethod) else function
        )
        fill: Callable[..., str] = keys(template, inner, vary, awaits=awaits)
        guard._serves(inner)
        like: Any = self
        update_wrapper(like, inner)
        vars(self).pop("invalidate", None)  # a copy, if the function is a cached one already
        self._function, self._fill = inner, fill
        self._binds = "" if isinstance(function, staticmethod) else "object"
        self._owners = ()
        if isinstance(function, classmethod):
            self._binds = "class"

    def __set_name__(self, owner: type, name: str) -> None:
        self._owners = (*self._owners, owner)

    def _bound_to(self, instance: Any, owner: Any) -> Any:
        """Return the object to which the function is bound: ``instance``, its class, or None."""
        if self._binds == "class":
            return type(instance) if owner is None else owner
        return instance if self._binds else None

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the key of these arguments.

        The first argument of an unbound method must be its object. Without the object, the other
        arguments could give the key of another value.
        """
        name, known = self._first(), True
        given = args[0] if args else kwargs.get(name)
        if self._binds == "class" or (name == "cls" and not self._owners):
            known = isinstance(given, type)
        elif self._owners and self._binds:
            known = isinstance(given, self._owners)
        if name and not known:
            text = (
                f"{shown(self)}.invalidate() is called by its class, and its first argument is no "
                f"{name!r}. Call it by an object, or give that first"
            )
            if name == "cls":
                text = (
                    f"{shown(self)}.invalidate() isn't bound to a class here, so it doesn't know "
                    f"whose value to forget. Give the class first, or write @cached(...) above "
                    "@classmethod"
                )
            raise ConfigError(text)
        return self._fill(*args, **kwargs)

    def _first(self) -> str:
        """The name of the first parameter."""
        code = getattr(self._function, "__code__", None)
        return str(code.co_varnames[0]) if code is not None and code.co_argcount else ""

    def __reduce__(self) -> str:
        return str(getattr(self, "__qualname__", type(self).__name__))

    def __repr__(self) -> str:
        return f"<cached {shown(self._function)}>"


class CachedMethodBase:
    """A cached function that is bound to an object or a class."""

    __slots__ = ("__func__", "__self__")

    def __init__(self, function: Any, instance: Any) -> None:
        self.__func__ = function
        self.__self__ = instance

    if not TYPE_CHECKING:  # else a type checker would accept every attribute

        def __getattr__(self, name: str) -> Any:
            if name == "__wrapped__":
                return self.__func__._function.__get__(self.__self__)
            return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CachedMethodBase):
            return NotImplemented
        return self.__self__ is other.__self__ and self.__func__ is other.__func__

    def __hash__(self) -> int:
        return hash((id(self.__self__), self.__func__))

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__func__.__name__)

    def __repr__(self) -> str:
        return f"<cached {shown(self.__func__)} of {self.__self__!r}>"
