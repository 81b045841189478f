"""What receipts and explanations ask of the account of a call, whichever call it was."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from powerctx_core.account.retrieved import Retrieved
from powerctx_core.errors import kind
from powerctx_core.receipt.making import Receipt, make
from powerctx_core.receipt.parts import ReceiptError
from powerctx_core.receipt.run import Run
from powerctx_core.requests import ContextPack, PreparedContext, PrepareRequest, SearchRequest
from powerctx_core.types import Address

__all__ = ["Account", "Fate", "Told", "receipt_of"]

_LOGGER = logging.getLogger("powerctx")


@attrs.frozen
class Fate:
    """What became of a candidate.

    Attributes:
        name: as of :class:`powerctx_core.explanation.ExplainedCandidate`.
        rendered_bytes: UTF-8 bytes of its piece of the text.
        detail: how much of it is shown, in a pack of tiers.
    """

    name: str
    rendered_bytes: int = 0
    detail: str | None = None


class Told(Protocol):
    """What a receipt is made of."""

    @property
    def answer(self) -> PreparedContext | ContextPack:
        """The answer, without a receipt unless one was asked for."""

    def run(self) -> Run:
        """Return the record that a receipt is built from.

        Raises:
            ReceiptError: what was delivered is not what was planned.
        """


class Account(Told, Protocol):
    """What is known of one finished call."""

    @property
    def request(self) -> PrepareRequest | SearchRequest:
        """What was asked."""

    @property
    def retrieved(self) -> Retrieved:
        """What was found."""

    @property
    def thresholds(self) -> Mapping[str, float]:
        """What something was compared with, by name."""

    @property
    def tried(self) -> Sequence[Address]:
        """What competed, in its order."""

    @property
    def fates(self) -> Mapping[Address, Fate]:
        """What became of each candidate that was let in and is known to have become something."""


def receipt_of(account: Told, version: int) -> Receipt | None:
    """Return the receipt of a call, or ``None``, with one line in the log, when there can be none.

    Nothing that happens here changes or loses the answer.
    """
    request_id = account.answer.diagnostics.request_id
    try:
        return make(account.run(), version, str(uuid.UUID(request_id)))
    except ReceiptError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the answer stands
        reason = kind(error)
    instead = "; ask for version 2 (receipt_version)" if version == 1 else ""
    _LOGGER.warning("no receipt of version %d for the request %s: %s%s", version, request_id, reason, instead)
    return None
