"""`python -m cpuaccel plan`: what a file of `cpuaccel.save` or `cpuaccel.aot_compile` holds.

`show.py` prints it, `timing.py` times it, `region.py` splits its regions into steps. `drawing.py`
makes nodes and edges of its graph, and `graphviz.py` draws them as SVG.
"""
