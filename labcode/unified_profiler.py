"""`labcode profile` by another name: ``python -m labcode.unified_profiler --gpus 4 train.py``."""

import sys

from labcode.__main__ import main

if __name__ == "__main__":
    sys.argv.insert(1, "profile")
    main()
