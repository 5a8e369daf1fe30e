"""What is kept: the database and its tables, artifacts, the registry's bytes, and secrets."""
