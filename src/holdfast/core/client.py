"""The common part of `Client` and `AsyncClient`: the checks of options, and the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, NotSupported
from . import checks
from .asking import Asking
from .context import Context, Owner
from .hold import HoldBase
from .lease import Terms
from .lock import PLAIN
from .lock import terms as make_terms
from .model import NAME_BYTES_MAX, Capabilities, Kind, LineRecord, Spec
from .policy import REQUEST_S
from .ports import Runtime, Store
from .refused_with import OneWith

if TYPE_CHECKING:
    from .guard.model import GuardRecord
    from .guard.options import Options as GuardOptions
    from .queue.model import QueueRecord
    from .queue.queue import Options

DEFAULT_TTL_S = 30.0
_LOCK = Kind.LOCK


class ClientBase(OneWith):
    """A client: one store, one renewer, any number of locks, queues and guards."""

    __slots__ = ("__weakref__", "_ctx", "_source", "_ttl")

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        hold_class: type[HoldBase],
        source: object,
        ttl: Any,
        owner: Owner,
    ) -> None:
        self._ttl = checks.ttl(ttl)
        checks.label(owner.label)
        self._source = source
        self._ctx = Context(store, runtime, owner, hold_class)
        self._ctx.source = source

    def _here(self) -> Context:
        """Return the client state to use: one for all threads, or one for each event loop."""
        return self._ctx

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of the store, as data."""
        return self._ctx.store.capabilities

    @property
    def owner(self) -> str:
        """The owner that others see for holds of this client: ``host:pid:label``."""
        return self._ctx.owner

    @property
    def url(self) -> str:
        """The store, as text that is safe to show: never with a password."""
        return self._ctx.store.label

    def supports(self, what: str) -> bool:
        """Return True if the store has the capability named ``what``, such as ``"detach"``."""
        value = getattr(self.capabilities, checks.text("what", what, NAME_BYTES_MAX, 1), None)
        if not isinstance(value, bool):
            known = [
                f for f in Capabilities._fields if isinstance(getattr(self.capabilities, f), bool)
            ]
            raise ConfigError(
                f"what={checks.shown(what)} isn't a capability; known: {', '.join(known)}"
            )
        return value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def _wish(
        self,
        kind: Kind,
        name: Any,
        *,
        capacity: int = 1,
        weight: int = 1,
        ttl: Any = None,
        timeout: Any = None,
        auto_renew: bool = True,
        max_hold: Any = None,
        min_hold: Any = 0.0,
        on_lost: Any = None,
        cancel_on_lost: bool = False,
        meta: str = "",
    ) -> tuple[Context, Spec, Terms, float | None]:
        """Check the options of a lock object, and return the parts from which the object is
        made."""
        ctx = self._here()
        lease = self._ttl if ttl is None else checks.ttl(ttl)
        terms = make_terms(
            ctx.runtime.awaits, auto_renew, max_hold, min_hold, on_lost, cancel_on_lost
        )
        if kind is not _LOCK:
            self._require_kind(kind)
        if terms is not PLAIN:
            self._require_terms(terms, lease, ttl is not None or self._ttl != DEFAULT_TTL_S)
        most = ctx.store.lease_max
        lease = min(lease, terms.max_hold, most)
        wait = None if timeout is None else checks.wait(True, timeout)
        text = meta if meta == "" else checks.meta(meta)
        spec = Spec(checks.name(name), kind, capacity, weight, lease, ctx.owner, text)
        return ctx, spec, terms, wait

    def _require_kind(self, kind: Kind) -> None:
        can = self.capabilities
        if kind is Kind.SEMAPHORE and not can.semaphore:
            raise NotSupported(f"{self.url} has no semaphores")
        if kind is Kind.RWLOCK and not can.rwlock:
            raise NotSupported(f"{self.url} has no read-write locks")
        if kind is Kind.ELECTION and not can.election:
            raise NotSupported(f"{self.url} has no elections; use a lock() for it")

    def _require_terms(self, terms: Terms, lease: float, asked: bool) -> None:
        store = self._ctx.store
        if terms.min_hold and not store.capabilities.min_hold:
            raise NotSupported(
                f"{self.url} can't keep a name occupied after its release (min_hold)"
            )
        if lease > store.lease_max and asked and not terms.auto_renew:
            raise ConfigError(
                f"{self.url} gives no lease of more than {store.lease_max:g} s, so a ttl of "
                f"{lease:g} s needs renewals. Use max_hold={lease:g} instead of auto_renew=False, "
                "which ends the hold after that time, too; or a shorter ttl"
            )

    def _open_here(self) -> Context:
        """Return the client state for a request that is sent now."""
        ctx = self._here()
        ctx.require_open()
        ctx.runtime.bind()
        return ctx

    async def _adopt(self, text: str, auto_renew: bool, on_lost: Any) -> HoldBase:
        from .adopt import adopt  # here, because few programs adopt

        ctx = self._open_here()
        terms = make_terms(ctx.runtime.awaits, auto_renew, None, 0.0, on_lost)
        return await adopt(ctx, text, terms)

    async def _inspect(self, prefix: str, exact: bool) -> list[LineRecord]:
        ctx = self._open_here()
        checks.prefix(prefix)
        if checks.flag("exact", exact):
            checks.name(prefix)
        return await ctx.store.inspect(prefix, REQUEST_S, exact)

    def _queue_options(self, *, ttl: Any, **given: Any) -> Options:
        from .queue.options import options  # here, because few programs have queues
        from .queue.ports import queues_of

        queues_of(self._ctx.store)
        return options(ttl=self._ttl if ttl is None else checks.ttl(ttl), **given)

    async def _survey(self, prefix: str) -> list[QueueRecord]:
        from .queue.ports import queues_of

        ctx = self._open_here()
        return await queues_of(ctx.store).survey(checks.prefix(prefix), REQUEST_S)

    def _guard_options(self, **given: Any) -> GuardOptions:
        from .guard.elsewhere import LIMITS  # here, because few programs have guards
        from .guard.options import options
        from .guard.ports import guards_of

        limits = guards_of(self._ctx.store).limits
        if given["cache"] is not None:
            limits = LIMITS
        return options(most=limits.value_bytes, **given)

    async def _guard_survey(self, prefix: str) -> list[GuardRecord]:
        from .guard.ports import guards_of

        ctx = self._open_here()
        return await guards_of(ctx.store).survey(checks.prefix(prefix), REQUEST_S)

    async def _break(self, name: str, fence: int) -> bool:
        ctx = self._open_here()
        name, ticket = checks.name(name), checks.count("fence", fence, checks.FENCE_MAX)
        return await Asking(ctx).insist(
            lambda within: ctx.store.break_(name, ticket, within), ctx.now() + REQUEST_S
        )

    async def _close(self) -> None:
        await self._ctx.close()
