"""Prints twice the number in the file beside it."""

from number import NUMBER

print(2 * NUMBER)
