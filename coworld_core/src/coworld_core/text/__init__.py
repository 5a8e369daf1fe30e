"""Text for people: names and counts in sentences, sizes, tables, addresses without secrets, output safe to print."""
