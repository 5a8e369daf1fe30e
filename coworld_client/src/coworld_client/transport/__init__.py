"""One connection to a platform: who is asking, what may be asked again, and what an answer is.

No noun of the API is known here.
"""
