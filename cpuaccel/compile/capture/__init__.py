"""Captures: models traced for given inputs, their signatures, their sizes, and how they run."""
