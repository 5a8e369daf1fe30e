"""The nouns of the API, one module each."""
