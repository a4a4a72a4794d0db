"""Pure functions from records to facts, and the matching of calls across ranks."""
