"""What cpuaccel changes in Inductor: sums by an index run on its kernels in compiled graphs too."""
