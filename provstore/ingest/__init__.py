"""Ingest: files become records, facts, journal entries and graph, in that order."""
