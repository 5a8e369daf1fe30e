"""Files from a platform: fetched whole or not at all, several at a time, and bundles of them."""
