"""The implementation of `cpuaccel.explain`. It is imported at the first call.

`model.py` walks over a model; the other files have the rows of one kind of model or layer each.
`step_timing.py` times the steps of plans.
"""
