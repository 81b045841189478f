"""Figures to hold a run against, from ``specification 08``: published, or measured earlier with other code."""

from __future__ import annotations

from collections.abc import Collection

from powerctx_eval.reports import Table

__all__ = ["known"]

_KNOWN = (
    ("locomo", "evidence in 8000 bytes, 8 items", "a peer, gate off / on", ".52 / .53"),
    ("locomo", "evidence in 8000 bytes", "plain BM25 with stemming, 8 items / filling", ".61 / .72"),
    ("locomo", "evidence in 400 / 800 / 1600 tokens", "plain BM25, 25 tokens of frame an entry", ".55 / .63 / .70"),
    ("locomo", "recall@10", "BM25 / MiniLM / both by rank / both by score", ".588 / .440 / .558 / .641"),
    ("madial_zh", "evidence in 8000 bytes", "a peer, gate off / on", ".09 / .43"),
    ("madial_zh", "evidence in 8000 bytes, filling", "plain bigram BM25", ".67"),
    ("madial_zh", "recall@10", "BM25 / multilingual USE / both by score", ".586 / .643 / .651"),
    ("cmrc_zh", "recall@1", "BM25", ".957"),
    ("cosqa_code", "recall@10", "BM25 / MiniLM", ".556 / .810"),
)


def known(sets: Collection[str]) -> Table:
    """Return the known figures of *sets*."""
    return Table(
        title="Known figures to compare with",
        note="Published, or measured earlier with other code on the same sets; not part of this run.",
        columns=("set", "measure", "what", "figure"),
        rows=tuple(row for row in _KNOWN if row[0] in sets),
    )
