"""What an episode leaves: who may see it, what it says in numbers, and how its files are linked to and sent.

Routes, pages and the worker stand on this room; it knows the store and identities, and none of them.
"""
