"""`python -m cpuaccel tune`: times matrix products and writes this machine's table."""
