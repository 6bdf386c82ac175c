"""Replication decided: who is in sync, what is committed, where logs part. Offsets, epochs and times are arguments."""
