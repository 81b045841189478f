"""The plugin that offers every broken part; its distribution is made by the test."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kit_fakes.faults import Fault, load
from powerctx_core import EmbedderSpec, FamilySpec, ProviderSpec, StoreSpec, TokenEstimatorSpec, hookimpl


def faults() -> list[Fault]:
    """Return the faults of the group that runs; a process that a test starts loads no more than it needs."""
    return load(os.environ["POWERCTX_BITES"])


@hookimpl
def powerctx_stores() -> Iterator[StoreSpec]:
    """Offer the stores."""
    yield from (fault.record for fault in faults() if isinstance(fault.record, StoreSpec))


@hookimpl
def powerctx_families() -> Iterator[FamilySpec]:
    """Offer the families."""
    yield from (fault.record for fault in faults() if isinstance(fault.record, FamilySpec))


@hookimpl
def powerctx_embedders() -> Iterator[EmbedderSpec]:
    """Offer the embedders."""
    yield from (fault.record for fault in faults() if isinstance(fault.record, EmbedderSpec))


@hookimpl
def powerctx_candidate_providers() -> Iterator[ProviderSpec]:
    """Offer the candidate providers."""
    yield from (fault.record for fault in faults() if isinstance(fault.record, ProviderSpec))


@hookimpl
def powerctx_token_estimators() -> Iterator[TokenEstimatorSpec]:
    """Offer the token estimators."""
    yield from (fault.record for fault in faults() if isinstance(fault.record, TokenEstimatorSpec))
