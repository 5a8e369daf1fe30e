"""Says seven."""

print(7)
