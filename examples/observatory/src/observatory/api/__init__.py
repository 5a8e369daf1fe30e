"""The routes of the API, one module for each noun, and their common parts (`calls`, `pages`, `views`).

This package turns requests into calls of the other packages, and values into JSON. Work that is not part of a request
belongs elsewhere.
"""
