"""Refreshes as Prefect runs them: flows, tasks, artifacts, deployments. `pipeline` holds the steps themselves and does
not use Prefect.
"""
