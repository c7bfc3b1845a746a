"""The Prefect server, its worker, deployments and automations."""
