"""Operators' actions: closing accounts and policies, overviews, backups and retention."""
