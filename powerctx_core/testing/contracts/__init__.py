"""The contracts, one module for each kind of duty; tests in them are rewritten by pytest for readable failures."""
