"""Files: written whole or not at all, and compressed data of others, read within limits."""
