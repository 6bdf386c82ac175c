"""The catalogue of remote segments as a node has it: read from, and written to, a log of events."""
