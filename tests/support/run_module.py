"""Runs a module like `python -m`, for programs that a launcher starts (`cli_kit.start_module`)."""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    # The launcher may have imported the module already.
    sys.modules.pop(sys.argv[0], None)
    runpy.run_module(sys.argv[0], run_name="__main__")
