"""Validation: compares plans with the model by error bounds, and times them against it."""
