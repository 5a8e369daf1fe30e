"""`python -m observatory`."""

from .cli import main

main()
