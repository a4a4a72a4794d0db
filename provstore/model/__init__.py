"""The nouns: frozen values that every other room passes on. Standard library and orjson only."""
