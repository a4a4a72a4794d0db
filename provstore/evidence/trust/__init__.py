"""The trust file of a verifier: its bytes, its keys, its changes, and what is remembered of it."""
