"""Prints seven."""

print(7)
