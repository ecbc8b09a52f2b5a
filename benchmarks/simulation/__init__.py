"""Simulates a CPU with more cores than this machine has."""
