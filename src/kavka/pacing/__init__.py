"""Time on the event loop: who has it, and for how long."""
