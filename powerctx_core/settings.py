"""Everything that can be set, with defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core.errors import InvalidRequest, redacted_url, shown
from powerctx_core.requests import DEADLINE_MS, ON_FAMILY_ERROR, SEARCH_TYPES
from powerctx_core.types import HEAD_BYTES, LIFECYCLES, Purpose, Section, Slot, manifest
from powerctx_core.wire.strict import HIDDEN

__all__ = [
    "AssemblySettings",
    "BootstrapSettings",
    "RecallSettings",
    "RetrievalSettings",
    "Settings",
    "TokenSettings",
    "TrimSettings",
]

ITEM_BYTES_MIN, ITEM_BYTES_MAX = 64, HEAD_BYTES
ASSEMBLY_ENTRIES_MAX = 32
HALF_LIFE_DAYS_MAX = 36_500.0
TIMEOUT_MAX = 600.0
WEIGHT_MAX = 100.0

_EMPTY: Mapping[Any, Any] = MappingProxyType({})
_SLOT_NAME = 64


@attrs.frozen(kw_only=True)
class TokenSettings:
    """How tokens are counted.

    Attributes:
        estimator: name of an installed token estimator.
    """

    estimator: str = "o200k"


@attrs.frozen(kw_only=True)
class RecallSettings:
    """What a request uses when it does not say.

    Attributes:
        families: kinds of evidence that are searched.
        policy: id of a recall policy; ``powerctx.recall.v1`` when absent, or the one that belongs to the gate.
        gate: ``off``, or id or alias of a gate policy.
        gate_files: TOML files of further gate policies; relative paths in a settings file count from its folder.
        item_bytes: the most UTF-8 bytes that one entry may take.
        deadline_ms: milliseconds after which a call goes on with what has arrived; as long as it takes when absent.
        on_family_error: ``fail``, or ``degrade`` to go on without a family that fails.
    """

    families: tuple[str, ...] = attrs.field(default=("memory", "topic-memory", "experience"))
    policy: str | None = None
    gate: str = "off"
    gate_files: tuple[Path, ...] = ()
    item_bytes: int = attrs.field(default=2000)
    deadline_ms: int | None = attrs.field(default=None)
    on_family_error: str = attrs.field(default="fail", validator=attrs.validators.in_(ON_FAMILY_ERROR))

    @families.validator
    def _check_families(self, attribute: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
        if not value:
            raise ValueError("is empty; name at least one family, such as memory, or leave it out", attribute)
        if twice := next((name for name in value if value.count(name) > 1), None):
            raise ValueError(f"names {twice!r} twice", attribute)

    @item_bytes.validator
    def _check(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not ITEM_BYTES_MIN <= value <= ITEM_BYTES_MAX:
            raise ValueError(f"must be from {ITEM_BYTES_MIN} to {ITEM_BYTES_MAX}, not {value}", attribute)

    @deadline_ms.validator
    def _check_deadline(self, attribute: attrs.Attribute[int | None], value: int | None) -> None:
        if value is not None and not DEADLINE_MS[0] <= value <= DEADLINE_MS[1]:
            raise ValueError(f"must be from {DEADLINE_MS[0]} to {DEADLINE_MS[1]}, not {value}", attribute)


@attrs.frozen(kw_only=True)
class BootstrapSettings:
    """What an agent is told when it starts.

    Attributes:
        slots: name -> what differs from the built-in slot of that name, or a further slot.
    """

    slots: Mapping[str, Slot] = attrs.field(default=_EMPTY)

    @slots.validator
    def _check_slots(self, attribute: attrs.Attribute[Mapping[str, Slot]], value: Mapping[str, Slot]) -> None:
        for name in value:
            if not name.strip() or not name.isprintable() or len(name) > _SLOT_NAME:
                raise ValueError(
                    f"names a slot {shown(name)}; a name is 1 to {_SLOT_NAME} characters that can be seen", attribute
                )
        for lifecycle in LIFECYCLES:
            if not any(slot.filled for slot in manifest(value, lifecycle)):
                raise ValueError(f"leaves no slot for {lifecycle}; give one a share above 0", attribute)


@attrs.frozen(kw_only=True)
class RetrievalSettings:
    """How candidates are looked for.

    Attributes:
        default_search_type: ``auto``, ``fts``, ``vector`` or ``hybrid``, for requests that do not say.
        embedding_timeout_s: how long a call waits for the query's vector, in seconds.
        write_embedding_timeout_s: how long writing waits for the vectors of 64 texts, in seconds.
        ledger_timeout_s: how long a call waits until the session's store knows what it delivered, in seconds.
        vector_weights: family -> weight of its vector channel beside words, whose weight is 1; 0 for none at all.  A
            family that is not named is embedded and searched by vector if its record says so, with the weight that the
            embedder recommends.
        purposes: name -> what a pack of that purpose takes, beside the built-in ``chat`` and ``coding``.
        bootstrap: what ``search`` gives in mode ``bootstrap``.
    """

    default_search_type: str = attrs.field(default="auto", validator=attrs.validators.in_(SEARCH_TYPES))
    embedding_timeout_s: float = attrs.field(default=0.25)
    write_embedding_timeout_s: float = attrs.field(default=60.0)
    ledger_timeout_s: float = attrs.field(default=0.25)
    vector_weights: Mapping[str, float] = attrs.field(default=_EMPTY)
    purposes: Mapping[str, Purpose] = attrs.field(default=_EMPTY)
    bootstrap: BootstrapSettings = BootstrapSettings()

    def by_vector(self, family: str, *, declared: bool) -> bool:
        """Tell whether a family's items are embedded and searched by vector: as is set, or else as *declared*."""
        return self.vector_weights.get(family, float(declared)) > 0.0

    @embedding_timeout_s.validator
    @write_embedding_timeout_s.validator
    @ledger_timeout_s.validator
    def _check_timeout(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 0.0 < value <= TIMEOUT_MAX:
            raise ValueError(f"must be more than 0 and at most {TIMEOUT_MAX:g} seconds, not {value}", attribute)

    @vector_weights.validator
    def _check_weights(self, attribute: attrs.Attribute[Mapping[str, float]], value: Mapping[str, float]) -> None:
        for family, weight in value.items():
            if not 0.0 <= weight <= WEIGHT_MAX:
                raise ValueError(f"{family}: must be from 0 to {WEIGHT_MAX:g}, not {weight}", attribute)


@attrs.frozen(kw_only=True)
class AssemblySettings:
    """How a pack is put together from sections.

    Attributes:
        max_entries: most entries of a pack that is made of sections, 1..32.
        sections: family -> entries, in the order of the text: what ``sections="default"`` stands for; families of it
            that are not installed are left out.
    """

    max_entries: int = attrs.field(default=8)
    sections: Mapping[str, int] = attrs.field(default=MappingProxyType({"memory": 6, "experience": 2}))

    @max_entries.validator
    def _check_max_entries(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not 1 <= value <= ASSEMBLY_ENTRIES_MAX:
            raise ValueError(f"must be from 1 to {ASSEMBLY_ENTRIES_MAX}, not {value}", attribute)

    @sections.validator
    def _check_sections(self, attribute: attrs.Attribute[Mapping[str, int]], value: Mapping[str, int]) -> None:
        if not value:
            raise ValueError("is empty; give at least one family its entries, such as memory = 6", attribute)
        for family, limit in value.items():
            try:
                Section(family=family, limit=limit)
            except InvalidRequest as error:
                raise ValueError(str(error).removeprefix("sections ").rstrip("."), attribute) from None


@attrs.frozen(kw_only=True)
class TrimSettings:
    """What a candidate is worth when ``trim="value"``.

    Attributes:
        relevance, use, confidence, layer, recency: weight of each share of the value; what each is, is said at
            :class:`powerctx_core.types.ItemValue`.
        half_life_days: age over the newest candidate at which the recency is a half, in days.
        redundancy: share of common character sequences from which two texts are nearly the same, above 0 and at most 1.
    """

    relevance: float = attrs.field(default=1.0)
    use: float = attrs.field(default=0.3)
    confidence: float = attrs.field(default=0.2)
    layer: float = attrs.field(default=0.1)
    recency: float = attrs.field(default=0.1)
    half_life_days: float = attrs.field(default=30.0)
    redundancy: float = attrs.field(default=0.8)

    @relevance.validator
    @use.validator
    @confidence.validator
    @layer.validator
    @recency.validator
    def _check_weight(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 0.0 <= value <= WEIGHT_MAX:
            raise ValueError(f"must be from 0 to {WEIGHT_MAX:g}, not {value}", attribute)
        if attribute.name == "recency" and not sum((self.relevance, self.use, self.confidence, self.layer, value)):
            raise ValueError("is 0, as all other weights are; give at least one weight more than 0", attribute)

    @half_life_days.validator
    def _check_half_life(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 0.0 < value <= HALF_LIFE_DAYS_MAX:
            raise ValueError(f"must be more than 0 and at most {HALF_LIFE_DAYS_MAX:g} days, not {value}", attribute)

    @redundancy.validator
    def _check_redundancy(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 0.0 < value <= 1.0:
            raise ValueError(f"must be more than 0 and at most 1, not {value}", attribute)


def _show_url(url: str | None) -> str:
    return repr(None if url is None else redacted_url(url))


@attrs.frozen(kw_only=True)
class Settings:
    """Everything that can be set.

    Attributes:
        store: URL of the store; :func:`default_store_url` when absent.
        state: URL of the store that keeps the sessions of a store which keeps none, and what was delivered in them.
        plugins: entry-point names of the plugins that may load; ``None`` is all, empty is safe mode.
        embedder: name of an installed embedder; ``None`` searches by words alone.
        sinks: names of installed sinks to use.
        parts: part name -> its own settings, checked when the part is made.
        origins: dotted name -> where the value came from; names that are absent were not read by :func:`load`.
    """

    store: str | None = attrs.field(default=None, repr=_show_url)
    state: str | None = attrs.field(default=None, repr=_show_url)
    plugins: tuple[str, ...] | None = None
    embedder: str | None = None
    sinks: tuple[str, ...] = ()
    tokens: TokenSettings = TokenSettings()
    recall: RecallSettings = RecallSettings()
    assembly: AssemblySettings = AssemblySettings()
    trim: TrimSettings = TrimSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    parts: Mapping[str, Mapping[str, object]] = attrs.field(default=_EMPTY, repr=lambda parts: repr(sorted(parts)))
    origins: Mapping[str, str] = attrs.field(default=_EMPTY, repr=False, eq=False, metadata={HIDDEN: True})

    @store.validator
    @state.validator
    def _check_store(self, attribute: attrs.Attribute[str | None], value: str | None) -> None:
        if isinstance(value, str) and not value.strip():  # else the default would be taken in silence
            raise ValueError("is empty; leave it out instead", attribute)
