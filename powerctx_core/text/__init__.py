"""Text: analysis into terms, token estimates, safe cutting."""
