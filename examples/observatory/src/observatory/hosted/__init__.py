"""Games that run for people: sessions, and what is kept of them."""
