"""What is known of one finished call, and the receipt made of it.

Everything here was there before anybody asked: a receipt asks no store and no model.
"""
