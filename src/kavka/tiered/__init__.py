"""Segments in a store elsewhere: how they are put there, found, checked and read back."""
