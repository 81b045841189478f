"""The embedded store of powerctx: one SQLite file."""
