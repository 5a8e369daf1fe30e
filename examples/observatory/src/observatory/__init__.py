"""A platform for Coworlds on your own machine."""
