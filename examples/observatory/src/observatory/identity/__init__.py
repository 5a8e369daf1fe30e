"""Identities: accounts and their tokens. This package does not depend on the API."""
