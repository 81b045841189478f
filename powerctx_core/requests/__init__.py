"""Requests and responses of the public calls.

A request checks itself when it is made; every entry point (Python, command line, HTTP) builds these same objects, so
there is one validator.  Responses are frozen values; :mod:`powerctx_core.wire` gives their serialised form.
"""

from powerctx_core.requests.answers import PREPARED_SCHEMA, Diagnostics, Found, PreparedContext, SelectedItem
from powerctx_core.requests.checks import (
    DEADLINE_MS,
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_ITEMS,
    MAX_BYTES,
    MAX_ITEMS,
    MAX_REFERENCES,
    MIN_BYTES,
    ON_FAMILY_ERROR,
    QUERY_CHARACTERS,
    SEARCH_TYPES,
)
from powerctx_core.requests.conditions import Conditions, Place
from powerctx_core.requests.find import FindRequest
from powerctx_core.requests.packs import ContextPack, PackEntry, SearchStats, recalled
from powerctx_core.requests.prepare import PrepareRequest
from powerctx_core.requests.search import SEARCH_MODES, SearchRequest, recall_parameters

__all__ = [
    "DEADLINE_MS",
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_ITEMS",
    "MAX_BYTES",
    "MAX_ITEMS",
    "MAX_REFERENCES",
    "MIN_BYTES",
    "ON_FAMILY_ERROR",
    "PREPARED_SCHEMA",
    "QUERY_CHARACTERS",
    "SEARCH_MODES",
    "SEARCH_TYPES",
    "Conditions",
    "ContextPack",
    "Diagnostics",
    "FindRequest",
    "Found",
    "PackEntry",
    "Place",
    "PrepareRequest",
    "PreparedContext",
    "SearchRequest",
    "SearchStats",
    "SelectedItem",
    "recall_parameters",
    "recalled",
]
