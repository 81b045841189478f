"""Receipts of version 1: the source system's contract, value by value.

Version 1 says nothing that the source could not say.  Where there is more to tell there is no receipt of version 1 at
all, rather than one with something left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import attrs

from powerctx_core.receipt import v2
from powerctx_core.receipt.parts import (
    SPARSE,
    Fallback,
    RecallRound,
    ReceiptError,
    RoundNumber,
    StageTiming,
    encoded,
    limited,
    plain,
)
from powerctx_core.receipt.rerank import Prompt, RerankFallback, RerankOutcome, Setting

__all__ = ["MOST_BYTES", "SCHEMA", "ReceiptV1", "of"]

SCHEMA: Final = "powercontext.prepared-context-receipt.v1"
MOST_BYTES: Final = 8192
LIMITS: Final = {
    "selected": 32,
    "rounds": 3,
    "searches": 32,
    "rerank_configs": 8,
    "reranks": 32,
    "omitted": 16,
    "stages": 8,
}
"""The most entries of each list."""
_DIGEST = limited(pattern="^sha256:[0-9a-f]{64}$")
_COUNT, _SIZE = limited(minimum=1), limited(minimum=0)

Family = Literal["atomic-memory", "topic-memory", "experience", "profile", "code"]
_FAMILIES: Final[Mapping[str, Family]] = {
    "memory": "atomic-memory",
    "topic-memory": "topic-memory",
    "experience": "experience",
    "profile": "profile",
    "code": "code",
}
Reason = Literal[
    "duplicate",
    "blank",
    "family_limit",
    "entry_limit",
    "below_min_bytes",
    "no_fitting_truncation",
    "rerank_not_selected",
    "not_retrieved",
]
_REASONS: Final = frozenset(Reason.__args__)  # type: ignore[attr-defined]  # of a Literal
_OWN_REASONS: Final = frozenset({"below_threshold"})
"""Reasons that tell of what never was a candidate: version 1 does not count it, and misses nothing."""


@attrs.frozen(kw_only=True)
class ArtifactRef:
    """An exact revision within a scope."""

    family: Family
    artifact_id: str
    revision: int = attrs.field(metadata=_COUNT)


@attrs.frozen(kw_only=True)
class ArtifactAddress:
    """An exact revision."""

    scope_id: str
    artifact: ArtifactRef


@attrs.frozen(kw_only=True)
class CodeEvidence:
    """An exact piece of code."""

    scope_id: str
    fingerprint: str
    path: str
    file_sha256: str
    start_line: int = attrs.field(metadata=_COUNT)
    end_line: int = attrs.field(metadata=_COUNT)
    snippet_sha256: str


@attrs.frozen(kw_only=True)
class SelectedItem:
    """One delivered entry; it has exactly one of the two identities.

    Attributes:
        rendered_bytes: UTF-8 bytes of its piece of the text.
        truncated: it was cut for size.
    """

    JSON_SCHEMA: ClassVar = {"oneOf": [{"required": ["artifact_address"]}, {"required": ["code_evidence"]}]}

    artifact_address: ArtifactAddress | None = attrs.field(default=None, metadata=SPARSE)
    code_evidence: CodeEvidence | None = attrs.field(default=None, metadata=SPARSE)
    rendered_bytes: int = attrs.field(metadata=_SIZE)
    truncated: bool


@attrs.frozen(kw_only=True)
class SearchGroup:
    """Retrievals that are alike.

    Attributes:
        mode: what really ran.
        count: how many; of ``not_run`` ones, how many did not.
    """

    round: RoundNumber
    family: Family
    mode: Literal["fts", "vector", "hybrid", "snapshot", "code", "none"]
    outcome: Literal["completed", "not_run", "failed"]
    fallback_reason: Fallback
    count: int = attrs.field(metadata=_COUNT)


@attrs.frozen(kw_only=True)
class RerankConfig:
    """What a reranker was called with; *config_id* is *config_digest*."""

    config_id: str = attrs.field(metadata=_DIGEST)
    config_digest: str = attrs.field(metadata=_DIGEST)
    policy_id: str
    model: str | None
    effective_settings: Mapping[str, Setting]
    timeout_seconds: float
    max_requests: int
    prompt: Prompt | None
    non_deterministic: bool


@attrs.frozen(kw_only=True)
class RerankGroup:
    """Calls of rerankers that are alike."""

    round: RoundNumber
    config_id: str = attrs.field(metadata=_DIGEST)
    outcome: RerankOutcome
    fallback_reason: RerankFallback
    count: int = attrs.field(metadata=_COUNT)


@attrs.frozen(kw_only=True)
class Retrieval:
    """Which retrievals and rerankers really ran."""

    rounds: tuple[RecallRound, ...] = attrs.field(metadata=limited(maxItems=LIMITS["rounds"]))
    searches: tuple[SearchGroup, ...] = attrs.field(metadata=limited(maxItems=LIMITS["searches"]))
    rerank_configs: tuple[RerankConfig, ...] = attrs.field(metadata=limited(maxItems=LIMITS["rerank_configs"]))
    reranks: tuple[RerankGroup, ...] = attrs.field(metadata=limited(maxItems=LIMITS["reranks"]))


@attrs.frozen(kw_only=True)
class OmittedGroup:
    """Candidates of one family that were left out for one reason; of ``not_retrieved`` there is one."""

    family: Family
    reason: Reason
    count: int = attrs.field(metadata=_COUNT)


@attrs.frozen(kw_only=True)
class ReceiptV1:
    """What one prepared context was made of and why.

    Attributes:
        receipt_id: a UUID, for correlation in logs only.
        query_digest: of the UTF-8 of the trimmed query in NFC.
        content_digest: of the delivered text; null when there is none.
        used_bytes: its UTF-8 length.
        truncated: an entry was cut for size.
        non_deterministic: a model reranker, or a model that made further queries or took part in a search, was called.
        selected: in the order of delivery.
    """

    schema: Literal["powercontext.prepared-context-receipt.v1"] = SCHEMA
    receipt_id: str = attrs.field(metadata=limited(format="uuid"))
    policy_id: Literal["powercontext.prepared-context-receipt.v1"] = SCHEMA
    query_digest: str = attrs.field(metadata=_DIGEST)
    content_digest: str | None = attrs.field(metadata=_DIGEST)
    requested_max_bytes: int = attrs.field(metadata=_SIZE)
    used_bytes: int = attrs.field(metadata=_SIZE)
    truncated: bool
    non_deterministic: bool
    retrieval: Retrieval
    selected: tuple[SelectedItem, ...] = attrs.field(metadata=limited(maxItems=LIMITS["selected"]))
    omitted: tuple[OmittedGroup, ...] = attrs.field(metadata=limited(maxItems=LIMITS["omitted"]))
    stages: tuple[StageTiming, ...] = attrs.field(metadata=limited(maxItems=LIMITS["stages"]))


def of(receipt: v2.ReceiptV2) -> ReceiptV1:
    """Return a receipt of version 1 that says what *receipt* says.

    Raises:
        ReceiptError: version 1 cannot say it; the message tells what.
    """
    if receipt.surface != "prepare" or receipt.split or receipt.query_digest is None:
        raise ReceiptError("version 1 tells of prepare without split delivery only")
    requested = next((budget.requested for budget in receipt.budgets if budget.unit == "bytes"), None)
    if requested is None:
        raise ReceiptError("version 1 tells of a budget in bytes only")
    found = ReceiptV1(
        receipt_id=receipt.receipt_id,
        query_digest=receipt.query_digest,
        content_digest=receipt.content_digest,
        requested_max_bytes=requested,
        used_bytes=receipt.content_bytes,
        truncated=receipt.truncated,
        non_deterministic=receipt.non_deterministic,
        retrieval=_retrieval(receipt),
        selected=_selected(receipt),
        omitted=_omitted(receipt),
        stages=receipt.stages,
    )
    _check(found)
    return found


def _check(receipt: ReceiptV1) -> None:
    """Check counts and size.

    Raises:
        ReceiptError: one is over its limit.
    """
    for name, most in LIMITS.items():
        number = len(getattr(receipt if hasattr(receipt, name) else receipt.retrieval, name))
        if number > most:
            raise ReceiptError(f"it has {number} {name}; {most} are the most")
    size = len(encoded(plain(receipt)))
    if size > MOST_BYTES:
        raise ReceiptError(f"it has {size} bytes; {MOST_BYTES} are the most")


def _family(receipt: v2.ReceiptV2, place: int) -> Family:
    name = receipt.families[place]
    if (family := _FAMILIES.get(name)) is None:
        raise ReceiptError(f"version 1 knows no family {name}")
    return family


def _retrieval(receipt: v2.ReceiptV2) -> Retrieval:
    searches = []
    for group in receipt.searches:
        if group.outcome == "late" or group.fallback_reason == "deadline":
            raise ReceiptError("version 1 knows nothing late")
        searches.append(
            SearchGroup(
                round=group.round,
                family=_family(receipt, group.family),
                mode=group.mode,
                outcome=group.outcome,
                fallback_reason=group.fallback_reason,
                count=group.count,
            )
        )
    configs = tuple(
        RerankConfig(
            config_id=config.config_digest,
            config_digest=config.config_digest,
            policy_id=config.policy_id,
            model=config.model,
            effective_settings=config.effective_settings,
            timeout_seconds=config.timeout_seconds,
            max_requests=config.max_requests,
            prompt=None if config.prompt is None else receipt.prompts[config.prompt],
            non_deterministic=config.non_deterministic,
        )
        for config in receipt.rerank_configs
    )
    reranks = [
        RerankGroup(
            round=group.round,
            config_id=configs[group.config].config_id,
            outcome=group.outcome,
            fallback_reason=group.fallback_reason,
            count=group.count,
        )
        for group in receipt.reranks
    ]
    searches.sort(key=lambda each: (each.round, each.family, each.mode, each.outcome, each.fallback_reason))
    return Retrieval(rounds=receipt.rounds, searches=tuple(searches), rerank_configs=configs, reranks=tuple(reranks))


def _selected(receipt: v2.ReceiptV2) -> tuple[SelectedItem, ...]:
    items = tuple(_item(receipt, item) for item in receipt.selected)
    code = [item.code_evidence is not None for item in items]
    if code != sorted(code):
        raise ReceiptError("version 1 knows code behind everything else only")
    return items


def _item(receipt: v2.ReceiptV2, item: v2.SelectedItem) -> SelectedItem:
    family, scope_id = _family(receipt, item.family), receipt.scopes[item.scope]
    identity: dict[str, Any]
    if item.detail is not None:
        raise ReceiptError("version 1 knows no entry but in full")
    if family == "code":
        fields = {field.name for field in attrs.fields(CodeEvidence)} - {"scope_id"}
        evidence = dict(item.evidence or {})
        if evidence.keys() != fields:
            raise ReceiptError("an entry of code does not give its whole identity")
        identity = {"code_evidence": CodeEvidence(scope_id=scope_id, **evidence)}  # type: ignore[arg-type]  # as declared
    elif item.evidence:
        raise ReceiptError(f"version 1 knows no identity fields of {family}")
    else:
        ref = ArtifactRef(family=family, artifact_id=item.artifact_id, revision=item.revision)
        identity = {"artifact_address": ArtifactAddress(scope_id=scope_id, artifact=ref)}
    return SelectedItem(**identity, rendered_bytes=item.rendered_bytes, truncated=item.truncated)


def _omitted(receipt: v2.ReceiptV2) -> tuple[OmittedGroup, ...]:
    groups = []
    for group in receipt.omitted:
        if group.reason in _OWN_REASONS:
            continue
        if group.reason not in _REASONS:
            raise ReceiptError(f"version 1 has no reason {group.reason}")
        family = _family(receipt, group.family)
        groups.append(OmittedGroup(family=family, reason=group.reason, count=group.count))  # type: ignore[arg-type]  # just checked
    return tuple(sorted(groups, key=lambda each: (each.family, each.reason)))
