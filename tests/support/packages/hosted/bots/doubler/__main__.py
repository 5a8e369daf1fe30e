"""Says twice what is beside it."""

from number import NUMBER

print(2 * NUMBER)
