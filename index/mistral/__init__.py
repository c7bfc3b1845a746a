"""A client of the Mistral API, with batches, rate limits and retries; embedding and generation share it."""
