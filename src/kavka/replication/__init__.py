"""Replication decided: the ISR, the high watermark, where logs diverge. Offsets, epochs and times are arguments."""
