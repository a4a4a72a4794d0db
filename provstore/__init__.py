"""Provenance store for distributed PyTorch training."""
