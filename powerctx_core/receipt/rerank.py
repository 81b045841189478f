"""Evidence of rerankers: what exactly ran, or no receipt at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

import attrs

from powerctx_core.canonical import sha256_of
from powerctx_core.receipt.parts import ReceiptError, RoundNumber, limited, plain

__all__ = ["Configuration", "Prompt", "Rerank", "RerankFallback", "RerankOutcome", "Setting", "config_digest"]

RerankOutcome = Literal["selected", "fallback", "failed"]
RerankFallback = Literal["none", "empty_selection", "inference_unavailable", "inference_timeout", "invalid_output"]
Setting = str | int | float | bool

RECORD: Final = "powerctx.rerank-config.v1"
"""Version of the record that a digest is taken of, and of the table below."""
_NUMBER, _WHOLE = (int, float), (int,)
SETTINGS: Final[Mapping[str, tuple[type, ...]]] = {
    "algorithm": (str,),
    "algorithm_version": (str,),
    "candidate_limit": _WHOLE,
    "frequency_penalty": _NUMBER,
    "max_output_tokens": _WHOLE,
    "presence_penalty": _NUMBER,
    "reasoning_effort": (str,),
    "seed": _WHOLE,
    "stream": (bool,),
    "temperature": _NUMBER,
    "top_k": _WHOLE,
    "top_p": _NUMBER,
}
"""Settings that a receipt may name, with the types of their values; what is not here cannot be told, nor left out."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,63}\Z")
"""A value that is text: the name of an algorithm, a version, a level; nothing that could be content or a secret."""
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]{0,127}\Z")
_GREATEST_WHOLE = (1 << 53) - 1
"""Above it RFC 8785 has no one way to write a number."""


@attrs.frozen(kw_only=True)
class Prompt:
    """Identity of the prompt that was sent; never its text.

    Attributes:
        selection: ``built_in``, or ``settings`` when settings replace it.
        compiled_digest: ``sha256:`` of what was sent, without the call's own content.
        scope_id, artifact_address: always null here; the source system keeps prompts in scopes.
    """

    key: str
    definition_version: str
    builtin_version: str
    selection: Literal["built_in", "settings"]
    selected_version: str
    compiled_digest: str = attrs.field(metadata=limited(pattern="^sha256:[0-9a-f]{64}$"))
    scope_id: None = None
    artifact_address: None = None


@attrs.frozen(kw_only=True)
class Configuration:
    """What a reranker was called with.

    Attributes:
        policy_id: of the instructions.
        model: provider and model, without credentials; ``None`` for a declared deterministic reranker.
        effective_settings: everything that shapes its output and is no content, defaults included.
        timeout_seconds: of one request.
        max_requests: of one call.
        prompt: ``None`` for a declared deterministic reranker.
        non_deterministic: a model runs, at whatever temperature.
    """

    policy_id: str
    model: str | None
    effective_settings: Mapping[str, Setting]
    timeout_seconds: float
    max_requests: int
    prompt: Prompt | None
    non_deterministic: bool

    def __attrs_post_init__(self) -> None:
        """Check that it is whole, and names nothing that a receipt must not.

        Raises:
            ReceiptError: a setting is not among those that can be told, or model and prompt do not go together.
        """
        for name, value in self.effective_settings.items():
            allowed = SETTINGS.get(name)
            if allowed is None or type(value) not in allowed:
                raise ReceiptError("a reranker's setting cannot be told: its name or type is not in the list")
            if isinstance(value, str) and not _WORD.match(value):
                raise ReceiptError(f"the value of a reranker's setting {name} is no single word")
            if isinstance(value, int) and abs(value) > _GREATEST_WHOLE:
                raise ReceiptError(f"the value of a reranker's setting {name} is too large")
        if self.model is not None and not _MODEL.match(self.model):
            raise ReceiptError("the name of a reranker's model is no provider/model identity")
        if self.non_deterministic and (self.model is None or self.prompt is None):
            raise ReceiptError("a reranker without model or prompt does not say that it is deterministic")
        if not self.non_deterministic and (self.model is not None or self.prompt is not None):
            raise ReceiptError("a reranker with a model or prompt says that it is deterministic")
        if not self.non_deterministic and "algorithm" not in self.effective_settings:
            raise ReceiptError("a deterministic reranker does not name its algorithm")


@attrs.frozen(kw_only=True)
class Rerank:
    """One call of a reranker.

    Attributes:
        configuration: ``None`` when the reranker gives none: there is no receipt then.
    """

    round: RoundNumber
    configuration: Configuration | None
    outcome: RerankOutcome
    fallback_reason: RerankFallback = "none"


def config_digest(configuration: Configuration) -> str:
    """Return the digest of a configuration: of its record as canonical JSON (RFC 8785).

    Raises:
        ReceiptError: it cannot be written so.
    """
    try:
        return sha256_of({"record": RECORD, **plain(configuration)})
    except ValueError:
        raise ReceiptError("a reranker's configuration has no canonical form") from None
