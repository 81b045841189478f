"""A store for powerctx: one append-only file."""
