"""Joining agent chains with the training runs that they launched, by trace ids and references."""
