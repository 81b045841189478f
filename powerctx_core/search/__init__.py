"""``search`` and ``recall``: from one retrieval to a list, or to a pack that can be used as it is."""
