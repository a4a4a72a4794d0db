"""Untrusted files → records: one reader a file or folder; nothing here judges, stores or shows."""
