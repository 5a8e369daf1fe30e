"""The image registry, as engines speak to it."""
