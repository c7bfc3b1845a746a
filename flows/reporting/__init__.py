"""Runs, versions and differences as tables and charts, for the terminal and for Prefect."""
