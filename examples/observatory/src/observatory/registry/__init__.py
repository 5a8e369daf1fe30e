"""The image registry for container engines."""
