"""Tests of the int8 engine."""
