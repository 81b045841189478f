"""Seeded evidence: what the contracts store and look for; the same in every run, no word of it from anywhere else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from powerctx_core.types import Item

__all__ = ["MISSING", "SCOPES", "evidence"]

SCOPES = ("project:kit", "project:kit-2")
MISSING = "qzvwx jkxqz"
"""Words that nothing holds."""

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_CONSONANTS = "bcdfghjkmp"


def evidence(family: str) -> tuple[Item, ...]:
    """Return items of *family* in two scopes: two languages, equal words, a thread, a long body, many terms."""
    first, second = SCOPES
    words = " ".join(f"w{_CONSONANTS[number // 10]}{_CONSONANTS[number % 10]}z" for number in range(90))
    rows = [
        (first, "choice", "We chose SQLite because a single file needs no server.", ("store", "decision"), "decisions"),
        (first, "freeze", "The deployment froze on Friday, so the release waits until Monday.", ("release",), "events"),
        (first, "backup", "Backups of the store run every night and are kept for a week.", ("store",), None),
        (first, "notes", "Release notes name every change of the store, the server and the client.", (), None),
        (first, "echo", "Release, release, release: the store says it four times, release.", ("release",), "events"),
        (first, "study", "他在北京大学读书，周末喜欢吃火锅。", (), "entities"),
        (first, "pause", "数据库迁移的时候，服务在周五停了两个小时。", ("release",), "events"),
        (first, "words", words, (), None),
        # The 4096th byte lies inside a character.
        (first, "minutes", "Minutes of the meeting: " + "会议讨论了发布的时间。" * 300, (), None),
        (second, "choice", "We chose a cluster because the company has many readers.", ("store",), "decisions"),
        (second, "vault", "The key of the vault is kept by the registrar.", (), None),
    ]
    threads = {"freeze": 0, "backup": 1, "notes": 2}
    return tuple(
        Item(
            scope_id=scope,
            family=family,
            artifact_id=name,
            title="Choice of the store" if name == "choice" else None,
            text=text,
            tags=tags,
            category=category,
            created_at=_EPOCH + timedelta(days=number),
            updated_at=_EPOCH + timedelta(days=20 + number),
            event_time=_EPOCH + timedelta(days=40 + number) if category == "events" else None,
            thread="standup" if name in threads else None,
            position=threads.get(name),
        )
        for number, (scope, name, text, tags, category) in enumerate(rows)
    )
