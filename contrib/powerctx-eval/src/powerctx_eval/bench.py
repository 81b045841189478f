"""Speed of calls beside the engine's own queries, on the same SQLite file and in the same run."""

from __future__ import annotations

import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

import powerctx_core as powerctx
from powerctx_core import EmbedderSpec, EmbedRequest, Item, hookimpl
from powerctx_eval.environment import environment
from powerctx_eval.metrics import percentile
from powerctx_eval.progress import Started, Tick, quiet
from powerctx_eval.reports import BENCH
from powerctx_eval.stores import BATCH, NO_EMBEDDER, opened
from powerctx_eval.synthetic import Text, items

__all__ = ["Workload", "bench"]

WARM = 10
_SCOPE = 50
_SEQUENCE_BITS = 32
_RANKED = "SELECT rowid FROM lexical WHERE lexical MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT 64"


@attrs.frozen(kw_only=True)
class Workload:
    """What is stored.

    Attributes:
        size: items.
        shape: ``one-scope`` or ``scopes-of-50``.
        lang: ``en`` or ``zh``.
    """

    size: int
    shape: str = "one-scope"
    lang: str = "en"

    @property
    def scopes(self) -> int:
        """Number of scopes."""
        return 1 if self.shape == "one-scope" else max(1, self.size // _SCOPE)


def bench(
    workloads: Sequence[Workload],
    *,
    runs: int,
    seed: int,
    embedder: str = NO_EMBEDDER,
    extra: Sequence[object] = (),
    started: Started = quiet,
) -> dict[str, Any]:
    """Measure every workload and return the report, a JSON value.

    Raises:
        StoreUnavailable: the SQLite store is not installed.
        InvalidRequest: the embedder cannot be opened.
    """
    begun = time.perf_counter()
    report: dict[str, Any] = {
        "schema": BENCH,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(workloads, runs, seed, embedder),
        "environment": environment(),
        "embedder": embedder,
        "runs": runs,
        "seed": seed,
        "calls": [],
        "ingest": [],
    }
    for workload in workloads:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="powerctx-bench-")))
            counted, parts = _counted(stack, embedder, extra)
            url = f"sqlite:///{(folder / 'bench.db').as_posix()}"
            ctx = stack.enter_context(opened(url, "counted" if counted else NO_EMBEDDER, extra=parts))
            where = attrs.asdict(workload)
            text = Text(workload.lang, seed=seed)
            stored = _Stored(ctx=ctx, path=folder / "bench.db", workload=workload, text=text, seed=seed)
            tick = started(f"{workload.size} {workload.shape} {workload.lang} ingest", workload.size)
            report["ingest"].append({**where, **_ingest(stored, folder / "engine.db", tick)})
            tick = started(f"{workload.size} {workload.shape} {workload.lang} calls", runs)
            report["calls"] += [{**where, **row} for row in _calls(stored, runs, counted, tick)]
    report["timing"] = {"seconds": time.perf_counter() - begun}
    return report


@attrs.frozen(kw_only=True)
class _Stored:
    ctx: powerctx.Context
    path: Path
    workload: Workload
    text: Text
    seed: int

    def items(self) -> Iterator[Item]:
        """Yield the items, the same every time."""
        return items(self.text, random.Random(self.seed), self.workload.size, self.workload.scopes)  # noqa: S311 (no secret)


def _ingest(stored: _Stored, other: Path, tick: Tick) -> dict[str, Any]:
    """Store everything, each batch in turn with the same texts in a bare FTS5 table of another file."""
    ours, engine = 0.0, 0.0
    tokenizer = "trigram" if stored.workload.lang == "zh" else "unicode61"
    with closing(sqlite3.connect(other)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = NORMAL")
        raw.execute(f"CREATE VIRTUAL TABLE bare USING fts5(text, tokenize='{tokenizer}')")
        batch: list[Item] = []
        for count, item in enumerate(stored.items(), 1):
            batch.append(item)
            if len(batch) < BATCH and count < stored.workload.size:
                continue
            start = time.perf_counter()
            stored.ctx.put(batch)
            between = time.perf_counter()
            with raw:
                raw.executemany("INSERT INTO bare(text) VALUES (?)", [(each.text,) for each in batch])
            ours, engine = ours + between - start, engine + time.perf_counter() - between
            tick(len(batch))
            batch = []
    size = stored.workload.size
    return {
        "file_bytes": sum(path.stat().st_size for path in stored.path.parent.glob(f"{stored.path.name}*")),
        "timing": {"items_per_second": round(size / ours, 1), "engine_items_per_second": round(size / engine, 1)},
    }


def _calls(stored: _Stored, runs: int, counted: _Counted | None, tick: Tick) -> Iterator[dict[str, Any]]:
    """Ask *runs* questions by each call and by the raw query, in rotated order."""
    rng = random.Random(stored.seed + 1)  # noqa: S311 (no secret)
    asked = [*_questions(stored, rng, runs + WARM)]
    names = ("prepare", "find", "engine")
    times: dict[str, list[float]] = {name: [] for name in names}
    statements: dict[str, int] = dict.fromkeys(names, 0)
    embeddings: dict[str, int] = dict.fromkeys(names, 0)
    with closing(_raw(stored.path)) as raw, _statements() as seen:
        calls: dict[str, Callable[[str, str], object]] = {
            "prepare": lambda query, scope: stored.ctx.prepare(query, scope_id=scope),
            "find": lambda query, scope: stored.ctx.find(query, scope_id=scope),
            "engine": _engine(raw, {query: _match(query) for query, _ in asked}),
        }
        for turn, (query, scope) in enumerate(asked):
            for place in range(len(names)):
                name = names[(turn + place) % len(names)]
                before, embedded = len(seen), counted.texts if counted else 0
                start = time.perf_counter()
                calls[name](query, scope)
                milliseconds = (time.perf_counter() - start) * 1000
                if turn >= WARM:
                    times[name].append(milliseconds)
                    statements[name] += len(seen) - before
                    embeddings[name] += (counted.texts if counted else 0) - embedded
            tick(turn >= WARM)
    for name in names[:2]:
        pairs = zip(times[name], times["engine"], strict=True)
        yield {
            "call": name,
            "runs": runs,
            "statements": round(statements[name] / runs, 3),
            "embeddings": round(embeddings[name] / runs, 3),
            "timing": {
                **_percentiles("ms", times[name]),
                **_percentiles("engine_ms", times["engine"]),
                "ratio_p50": round(statistics.median(ours / engine for ours, engine in pairs), 3),
            },
        }


def _questions(stored: _Stored, rng: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Yield (query, scope), each about an item of the scope."""
    wanted = sorted(rng.randrange(stored.workload.size) for _ in range(count))
    found: list[tuple[str, str]] = []
    for number, item in enumerate(stored.items()):
        while len(found) < count and wanted[len(found)] == number:
            found.append((stored.text.question(rng, item.text), item.scope_id))
        if len(found) == count:
            break
    rng.shuffle(found)
    yield from found


def _raw(path: Path) -> sqlite3.Connection:
    raw = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    for pragma in ("mmap_size = 1073741824", "cache_size = -32768"):
        raw.execute(f"PRAGMA {pragma}")
    return raw


def _engine(raw: sqlite3.Connection, matches: Mapping[str, str]) -> Callable[[str, str], object]:
    """Return the engine's own ranked query for the terms of a query, within the rows of its scope."""
    blocks = {scope: ident << _SEQUENCE_BITS for scope, ident in raw.execute("SELECT scope_id, id FROM partition")}

    def engine(query: str, scope: str) -> object:
        first = blocks[scope]
        return raw.execute(_RANKED, (matches[query], first, first + (1 << _SEQUENCE_BITS) - 1)).fetchall()

    return engine


def _match(query: str) -> str:
    from powerctx_core.text.terms import analyse_query, encode

    return " OR ".join(f'"{encode(term)}"' for term in analyse_query(query).terms)


@contextmanager
def _statements() -> Iterator[list[str]]:
    """Collect the SQL statements of every engine in the process, but for the ends of transactions."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    seen: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        del connection, cursor, rest
        if not statement.lstrip()[:8].upper().startswith(("BEGIN", "COMMIT", "ROLLBACK")):
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


class _Counted:
    """An embedder that counts the texts another one embeds; also the plugin that offers itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.texts = 0

    @property
    def profile(self) -> Any:
        """That of the other one."""
        return self._inner.profile

    def embed(self, request: EmbedRequest) -> Sequence[bytes]:
        """Count and pass on."""
        self.texts += len(request.texts)
        vectors: Sequence[bytes] = self._inner.embed(request)
        return vectors


class _Offer:
    """A plugin that offers one embedder under the name ``counted``."""

    def __init__(self, part: _Counted) -> None:
        self._part = part

    @hookimpl
    def powerctx_embedders(self) -> Iterator[EmbedderSpec]:
        """Offer it."""
        yield EmbedderSpec(name="counted", factory=lambda _: self._part, about="counts texts")


def _counted(stack: ExitStack, embedder: str, extra: Sequence[object]) -> tuple[_Counted | None, tuple[object, ...]]:
    if embedder == NO_EMBEDDER:
        return None, tuple(extra)
    lender = stack.enter_context(opened("memory", extra=extra))
    part = _Counted(lender.host.part("powerctx_embedders", embedder))
    return part, (*extra, _Offer(part))


def _percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{name}_p{share}": round(percentile(values, share / 100), 4) for share in (50, 95)}


def _command(workloads: Sequence[Workload], runs: int, seed: int, embedder: str) -> str:
    words = ["powerctx eval bench", f"--sizes {','.join(dict.fromkeys(str(each.size) for each in workloads))}"]
    words += [f"--shape {shape}" for shape in dict.fromkeys(each.shape for each in workloads)]
    words += [f"--lang {lang}" for lang in dict.fromkeys(each.lang for each in workloads)]
    words += [f"--embedder {embedder}"] if embedder != NO_EMBEDDER else []
    return " ".join([*words, f"--runs {runs} --seed {seed}"])
