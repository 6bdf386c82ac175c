"""One file per question asked of both rivals."""
