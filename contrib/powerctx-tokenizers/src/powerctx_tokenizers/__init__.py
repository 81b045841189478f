"""Exact token counters."""
