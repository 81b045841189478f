"""From pools to ranked hits: ranking, policies, admission, fusion.  Pure functions, no I/O."""
