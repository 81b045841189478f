"""A store of powerctx with its vectors in Chroma."""
