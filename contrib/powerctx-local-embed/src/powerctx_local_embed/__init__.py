"""An embedder for powerctx that works offline, from packages alone."""
