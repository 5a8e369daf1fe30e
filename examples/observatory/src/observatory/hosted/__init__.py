"""Games hosted for people: sessions, and storing them as episodes."""
