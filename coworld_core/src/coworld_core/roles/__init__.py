"""The roles that look at episodes afterwards: what they are given, and what they give."""
