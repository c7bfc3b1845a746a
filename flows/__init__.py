"""Prefect: the order of the steps, retries, artifacts. What a step does stands in the other rooms."""
