"""`python -m cpuaccel`."""

import sys

from cpuaccel._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
