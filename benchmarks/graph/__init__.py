"""Partitions of compiled graphs."""
