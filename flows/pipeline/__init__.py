"""The steps of a refresh and of its upkeep. No module here imports Prefect."""
