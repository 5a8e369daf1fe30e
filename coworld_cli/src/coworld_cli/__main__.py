"""`python -m coworld_cli` is the same as `coworld`."""

from .main import main

if __name__ == "__main__":
    raise SystemExit(main())
