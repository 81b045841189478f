"""Broken parts, one fault each, and the tests of the conformance kit that have to notice it.

A module is a group of faults, run in one process by ``test_kit_bites.py``; ``faults``, ``stores``, ``reporter`` and
``plugin`` are what they share.  All of it is found by name through ``PYTHONPATH``, as an installed plugin is.
"""
