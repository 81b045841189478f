"""Receipts: what one answer was made of and why, without any stored text.  Pure; nothing here is stored."""
