"""Fuses ops of convert_fx models. Graph helpers in it are shared with `_lowering`."""
