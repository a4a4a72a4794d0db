"""Verification: bytes, trust and anchors in, findings out."""
