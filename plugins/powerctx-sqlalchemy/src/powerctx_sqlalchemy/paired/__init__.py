"""Vectors in an engine of their own, beside a relational store that keeps all the rest: the companion.

Every write is two writes, in an order that a crash at any moment leaves consistent: a mark in the companion, the entry
in the engine, and a transaction in the companion that makes it count.  Readers believe the companion alone.
"""

from powerctx_sqlalchemy.paired.catalogue import PairedCatalogue
from powerctx_sqlalchemy.paired.engine import Collection, Entry, VectorEngine
from powerctx_sqlalchemy.paired.pairing import Pairing
from powerctx_sqlalchemy.paired.reading import Located, Moment

__all__ = ["Collection", "Entry", "Located", "Moment", "PairedCatalogue", "Pairing", "VectorEngine"]
