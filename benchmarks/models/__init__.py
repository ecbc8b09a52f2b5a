"""Whole models, engines side by side."""
