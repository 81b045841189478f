"""What the public calls return."""

from __future__ import annotations

import attrs

from powerctx_core.receipt.v1 import ReceiptV1
from powerctx_core.receipt.v2 import ReceiptV2
from powerctx_core.types import (
    Address,
    AdmissionCounts,
    Hit,
    RecallEffort,
    ToolList,
    Trimming,
)

__all__ = ["PREPARED_SCHEMA", "Diagnostics", "Found", "PreparedContext", "SelectedItem"]

PREPARED_SCHEMA = "powercontext.prepared-context.v1"


@attrs.frozen(kw_only=True)
class SelectedItem:
    """One delivered entry.

    Attributes:
        rendered_bytes: UTF-8 bytes of its piece of the content.
        truncated: its body was cut; of a listed one, its abstract.
        part: ``inject`` when it stands in the text, ``tools`` when it is listed.
    """

    address: Address
    rendered_bytes: int
    truncated: bool
    part: str = "inject"


@attrs.frozen(kw_only=True)
class Diagnostics:
    """What happened, without any stored text.

    Attributes:
        outcome: ``delivered``, ``no_content``, ``no_match``, ``below_threshold``, ``budget``, ``deadline`` (nothing is
            delivered, and something was late) or ``source_error`` (nothing is delivered, and a family failed).
        partial: something is missing, since it did not answer in time or failed: *late* and *failed* name it.
        late: families, ``family:channel`` where only a channel is missing, ``renderer:name``, ``usage``, and
            ``gate``, a round of which was dropped.
        failed: family -> why the call went on without it: ``invalid`` when it broke the contract of a pool, else the
            name of what it raised.
        request_id: for correlation in logs.
        policy: recall policy in force.
        fallback: ``none``, ``inference_unavailable`` or ``inference_timeout``: why words alone had to do.
        embeddings: texts that were embedded.
        deepened: how often deeper pools were asked for, since what the request leaves out had emptied them.
        cut_short: the answer has room for more, and pools end before what is stored does: there may be further matches.
        modes: family -> what ran (``fts``, ``vector``, ``hybrid``, ``snapshot``, ``none``), over its scopes.
        counts: members before and after admission, per family and scope.
        terms_used, terms_total: query terms used by retrieval, and distinct ones in the query.
        omitted: reason -> number of candidates that were not delivered.
        frame_over: units of the budgets that the text around the entries (the frame, which is always included) exceeds
            alone, so that nothing can be delivered.
        trimming: what each candidate was worth, when a request is trimmed by value.
        effort: what the gate judged and did, when it is on.
        items: every delivered entry.
    """

    outcome: str
    request_id: str
    policy: str
    partial: bool = False
    late: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    fallback: str = "none"
    embeddings: int = 0
    deepened: int = 0
    cut_short: bool = False
    modes: tuple[tuple[str, str], ...] = ()
    counts: tuple[AdmissionCounts, ...] = ()
    terms_used: int = 0
    terms_total: int = 0
    omitted: tuple[tuple[str, int], ...] = ()
    frame_over: tuple[str, ...] = ()
    trimming: Trimming | None = None
    effort: RecallEffort | None = None
    items: tuple[SelectedItem, ...] = ()


@attrs.frozen(kw_only=True)
class PreparedContext:
    """The answer of ``prepare``; its serialised form has exactly the keys schema, status, content, content_bytes.

    When delivery is split there are two more, inject and tools; with a receipt there is receipt.

    Attributes:
        status: ``ready`` (non-blank content) or ``empty`` (content ``None``, 0 bytes).
        content: text to give to the model, as it is; the stable part when delivery is split.
        content_bytes: its exact UTF-8 length.
        tools: what the agent can read on demand; ``None`` unless delivery is split.
        receipt: what it was made of and why, when that was asked for and could be told.  It is about the content and no
            part of it: never give it to a model.
    """

    status: str
    content: str | None
    content_bytes: int
    diagnostics: Diagnostics = attrs.field(repr=False)
    schema: str = PREPARED_SCHEMA
    tools: ToolList | None = None
    receipt: ReceiptV1 | ReceiptV2 | None = attrs.field(default=None, repr=False)

    @property
    def inject(self) -> str | None:
        """The stable part when delivery is split: what *content* holds."""
        return None if self.tools is None else self.content

    @property
    def selected(self) -> tuple[Address, ...]:
        """Addresses in the order delivered; of a split delivery those in the text first, then those that are listed."""
        return tuple(item.address for item in self.diagnostics.items)


@attrs.frozen(kw_only=True)
class Found:
    """The answer of ``find``: hits, best first."""

    hits: tuple[Hit, ...]
    diagnostics: Diagnostics = attrs.field(repr=False)
