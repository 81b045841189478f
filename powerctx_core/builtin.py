"""Core's own parts, offered as any plugin offers its own."""

from __future__ import annotations

from collections.abc import Iterable

from powerctx_core.hash_embed import HashSettings
from powerctx_core.hookspecs import hookimpl
from powerctx_core.ports import Capability
from powerctx_core.records import (
    AdmissionSpec,
    EmbedderSpec,
    FamilySpec,
    ProviderSpec,
    RendererSpec,
    StoreSpec,
    TokenEstimatorSpec,
)
from powerctx_core.slot_sources import EventSettings, ListingSettings

__all__: list[str] = []


@hookimpl
def powerctx_families() -> Iterable[FamilySpec]:
    """What is known, all of it kept in the store."""
    stored = "powerctx_core.families:StoredFamily"
    yield FamilySpec(
        name="memory",
        factory=stored,
        title="Memory",
        ceiling=16,
        pool=64,
        bucket="memories",
        about="facts, events, entities and preferences",
    )
    yield FamilySpec(
        name="topic-memory",
        factory=stored,
        title="Topics",
        searched="current",
        layer="L2",
        bucket="memories",
        about="what many memories say of one topic: title, summary, detail",
    )
    yield FamilySpec(
        name="experience",
        factory=stored,
        title="Experience",
        entries=2,
        section_range=(1, 2),
        bucket="experiences",
        vectors=False,
        about="lessons of earlier work",
    )
    yield FamilySpec(
        name="profile",
        factory=stored,
        title="Profile",
        searchable=False,
        ceiling=32,
        pool=1,
        layer="L3",
        text_bytes=256 << 10,
        about="who or what a scope is about: its latest text, asked for by a section",
    )
    yield FamilySpec(
        name="resource",
        factory=stored,
        title="Resources",
        searched="current",
        bucket="resources",
        tiers="abstract",
        about="documents and files",
    )
    yield FamilySpec(
        name="skill",
        factory=stored,
        title="Skills",
        searched="current",
        entries=4,
        section_range=(1, 4),
        layer="L3",
        bucket="skills",
        tiers="abstract",
        about="how to do something",
    )


@hookimpl
def powerctx_admissions() -> Iterable[AdmissionSpec]:
    """The rule that policies are calibrated for."""
    yield AdmissionSpec(
        name="floor", factory="powerctx_core.recall.admission:FloorAdmission", about="coverage, matched terms, cosine"
    )


@hookimpl
def powerctx_candidate_providers() -> Iterable[ProviderSpec]:
    """What the slots of the bootstrap manifest are filled with."""
    module = "powerctx_core.slot_sources"
    yield ProviderSpec(name="latest-profile", factory=f"{module}:LatestProfile", about="who the scope is about")
    yield ProviderSpec(
        name="recent-events",
        factory=f"{module}:RecentEvents",
        settings=EventSettings,
        about="events of the last days",
    )
    yield ProviderSpec(name="session-log", factory=f"{module}:SessionLog", about="what a session was about")
    yield ProviderSpec(
        name="recent-items",
        factory=f"{module}:RecentItems",
        settings=ListingSettings,
        about="what was updated last, by name and a line",
    )
    yield ProviderSpec(name="guide", factory=f"{module}:Guide", about="how to use a pack")


@hookimpl
def powerctx_renderers() -> Iterable[RendererSpec]:
    """Text forms: JSON lines for prompts, XML for search packs, and one without markup."""
    module = "powerctx_core.render"
    yield RendererSpec(name="prepared", factory=f"{module}.prepared:Prepared", about="a JSON object a line, cited")
    yield RendererSpec(
        name="flat-xml", factory=f"{module}.flat_xml:FlatXml", shows=("score",), about="an XML element an entry"
    )
    yield RendererSpec(
        name="sections",
        factory=f"{module}.sections:Sections",
        shows=("confidence", "recall_rank"),
        about="Markdown: a heading a family, quoted text",
    )
    yield RendererSpec(name="plain", factory=f"{module}.plain:Plain", about="indented text, no markup")


@hookimpl
def powerctx_stores() -> Iterable[StoreSpec]:
    """A store that lives as long as the process."""
    yield StoreSpec(
        name="memory",
        schemes=("memory",),
        factory="powerctx_core.memory_store:MemoryStore",
        capabilities=frozenset(
            {
                Capability.LEXICAL,
                Capability.REVISIONS,
                Capability.TAGS,
                Capability.TRANSACTIONS,
                Capability.VECTOR,
                Capability.WINDOW,
            }
        ),
        example="memory://",
        about="in memory, gone when closed",
    )


@hookimpl
def powerctx_embedders() -> Iterable[EmbedderSpec]:
    """Vectors without a model."""
    yield EmbedderSpec(
        name="hash",
        factory="powerctx_core.hash_embed:HashEmbedder",
        settings=HashSettings,
        about="hashed words, for tests: no model, no meaning",
    )


@hookimpl
def powerctx_token_estimators() -> Iterable[TokenEstimatorSpec]:
    """Price lists that need no tokenizer."""
    module = "powerctx_core.text.tokens"
    yield TokenEstimatorSpec(name="seed", factory=f"{module}:Seed", about="one price per character class")
    yield TokenEstimatorSpec(name="o200k", factory=f"{module}:O200k", about="fitted to o200k_base")
    yield TokenEstimatorSpec(name="qwen", factory=f"{module}:Qwen", about="fitted to Qwen's tokenizer")
    yield TokenEstimatorSpec(name="deepseek", factory=f"{module}:DeepSeek", about="fitted to DeepSeek's tokenizer")
