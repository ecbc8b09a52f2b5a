"""Single operations, providers side by side."""
