"""Renderers: pieces of text, each ending in a newline."""
