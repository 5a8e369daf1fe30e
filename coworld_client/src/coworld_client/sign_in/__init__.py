"""Signing in, tokens, and the file on this machine that stores them."""
