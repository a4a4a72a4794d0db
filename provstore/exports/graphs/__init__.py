"""Graphs as documents and pictures: PROV-JSON, PROV-N, JSON, DOT, Mermaid."""
