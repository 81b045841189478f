"""A family for powerctx: the notes of a JSON file."""
