"""The command line `python -m cpuaccel`: `main.py`, and a file or folder for each command."""
