"""`python -m calql`: for a source tree that is not installed."""

import sys

from calql.cli import main

if __name__ == "__main__":
    sys.exit(main())
