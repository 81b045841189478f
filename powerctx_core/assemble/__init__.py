"""From candidates to text inside every budget.  Pure functions, no I/O, no clock."""
