"""Who is who: accounts, and the tokens that speak for them. Nothing here knows of requests to the API."""
