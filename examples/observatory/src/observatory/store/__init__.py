"""Stored data: the database and its tables, artifacts, the registry's blobs, and secrets."""
