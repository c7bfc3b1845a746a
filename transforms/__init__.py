"""Items in, items out: clean, partition, de-duplicate, validate, chunk. No clock, no network, no Prefect."""
