"""Passes over traced graphs: layouts, linear layers, strided reads, constants, decompositions."""
