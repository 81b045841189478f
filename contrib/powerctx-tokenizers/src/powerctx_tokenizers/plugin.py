"""What the entry point names; loads no vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_core import TokenEstimatorSpec, hookimpl

__all__ = ["powerctx_token_estimators"]

_COUNTERS = "powerctx_tokenizers.counters"


@hookimpl
def powerctx_token_estimators() -> Iterator[TokenEstimatorSpec]:
    """Offer one counter a vocabulary."""
    for name, factory, about in (
        ("o200k-exact", "O200k", "OpenAI's o200k_base"),
        ("cl100k-exact", "Cl100k", "OpenAI's cl100k_base"),
        ("qwen-exact", "Qwen", "Qwen 3"),
        ("llama3-exact", "Llama3", "Llama 3"),
        ("deepseek-exact", "DeepSeek", "DeepSeek V4"),
    ):
        yield TokenEstimatorSpec(
            name=name, factory=f"{_COUNTERS}:{factory}", exact=True, about=f"counts as the vocabulary of {about} does"
        )
