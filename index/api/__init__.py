"""Client of the Mistral API with batching, a rate limit and retries, shared by embedding and generation."""
