"""Segments in remote storage: how they are put there, found, checked and read back."""
