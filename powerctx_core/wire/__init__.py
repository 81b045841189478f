"""Serialised forms: values to JSON, and mappings (from JSON or TOML) to values, strictly."""

from powerctx_core.wire.forms import canonical, to_json
from powerctx_core.wire.strict import structure

__all__ = ["canonical", "structure", "to_json"]
