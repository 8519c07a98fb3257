"""Many adaptations as one batch: plan, program, chunks, table."""
