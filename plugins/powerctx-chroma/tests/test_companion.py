"""A companion of another plugin than SQLite's: OceanBase's embedded engine."""

from __future__ import annotations

from typing import ClassVar

import pytest

from powerctx_core.config import structure
from powerctx_core.errors import CapabilityError
from powerctx_core.host import Host
from powerctx_core.testing.vector_words import OTHER, PROFILE, Vectors, close, seeded
from powerctx_core.types import Deadline


class TestSeekdbCompanion:
    """Its engine takes seconds to start, so that only ``--chroma=directory`` runs this."""

    chroma: ClassVar = "directory"

    @pytest.fixture
    def vectors(self, tmp_path):
        """Give a store that was told the model."""
        url = f"chroma:///{tmp_path}/notes?companion=seekdb:///{tmp_path}/engine"
        settings = structure({"parts": {"chroma": {"exact_below": 5}}})
        with Host.compose(settings, allow=["chroma", "oceanbase"]) as host:
            vectors = Vectors(host.open_store(url))
            vectors.index.attach(PROFILE)
            yield vectors

    def test_life(self, vectors):
        """Vectors come, move, are replaced and go, as with SQLite, and an open snapshot keeps its own."""
        keys = vectors.fill({f"a{n}": seeded(n) for n in range(4)})
        assert [("a2", close(1))] == vectors.nearest(seeded(2), 1)
        with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
            before = vectors.nearest(seeded("q"), snapshot=snapshot)
            vectors.fill({f"b{n}": seeded(f"b{n}") for n in range(4)})
            vectors.index.upsert({keys["a0"]: seeded("new")})
            vectors.put(vectors.item("a1", "other"))
            vectors.retire("a2")
            vectors.purge("a3")
            assert before == vectors.nearest(seeded("q"), snapshot=snapshot)
        vectors.store.pairing.sweep(at_once=True)

        assert {"a0", "b0", "b1", "b2", "b3"} == set(vectors.found(seeded("q"), 50))
        assert ["a0"] == vectors.found(seeded("new"), 1)
        assert (5, 0) == (vectors.index.count(), vectors.store.pairing.waiting())
        with pytest.raises(CapabilityError, match="model/1"):
            vectors.index.attach(OTHER)
        assert {"t"} == set(vectors.index.cached(["t", "nobody"]))
        assert 1 == len(vectors.missing())
        assert 5 == vectors.index.clear()
        assert [] == vectors.found(seeded("q"))
