"""Translates answers of kazoo into the types of `requests`."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import ZnodeStat

from ....errors import ConfigError, StoreUnavailable
from ..requests import (
    Children,
    Create,
    Folder,
    Found,
    Get,
    Look,
    Made,
    Multi,
    No,
    Put,
    Request,
    Stat,
)

_REFUSALS: dict[type[BaseException], No] = {
    NoNodeError: No.NODE,
    NodeExistsError: No.ROOM,
    NoAuthError: No.RIGHT,
    NotEmptyError: No.CHILDREN,
    NoChildrenForEphemeralsError: No.LEAF,
    BadVersionError: No.VERSION,
    RolledBackError: No.OTHER,
    RuntimeInconsistency: No.OTHER,
}


def understood(request: Request, value: Any, label: str) -> Any:
    """Translate an answer of kazoo; raise an error if there was no answer."""
    if isinstance(value, BaseException):
        return _refusal(value, label)
    if isinstance(request, Create | Folder):
        return Made(value[0], _stat(value[1]))
    if isinstance(request, Children):
        return value
    if isinstance(request, Get):
        return Found(value[0] or b"", _stat(value[1]))
    if isinstance(request, Look):
        return No.NODE if value is None else _stat(value)
    if isinstance(request, Put):
        return _stat(value)
    if isinstance(request, Multi):
        return [_of_many(one, label) for one in value]
    return True


def _of_many(one: Any, label: str) -> Any:
    if isinstance(one, BaseException):
        return _refusal(one, label)
    if isinstance(one, str):  # the path of a created node
        return one
    return _stat(one) if isinstance(one, ZnodeStat) else True


def _refusal(wrong: BaseException, label: str) -> No:
    known = _REFUSALS.get(type(wrong))
    if known is not None:
        return known
    if isinstance(wrong, AuthFailedError | InvalidACLError):
        raise ConfigError(f"{label} refused our credentials or our ACL: {wrong!r}") from wrong
    if isinstance(wrong, Exception):
        raise StoreUnavailable(f"{label} did not answer: {type(wrong).__name__} {wrong}") from wrong
    raise wrong


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        stat.czxid,
        stat.ctime / 1000.0,
        stat.mtime / 1000.0,
        stat.ephemeralOwner,
        stat.version,
        stat.cversion > 0,
        stat.mzxid,
        stat.numChildren,
    )
