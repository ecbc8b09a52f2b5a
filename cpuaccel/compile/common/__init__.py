"""What several folders use: reports, caches and pytree leaves."""
