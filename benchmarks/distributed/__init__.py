"""Costs of several processes."""
