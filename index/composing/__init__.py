"""Makes segments, and composes versions of them."""
