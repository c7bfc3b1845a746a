"""`almanac server`: Prefect's server with its UI, the deployments of this project, and a worker."""

from almanac.cli.options import Data


def server(data: Data = None) -> int:
    """Schedule and watch: Prefect's server and UI, a deployment for each knowledge base of the project, and a worker,
    until Ctrl-C.
    """
    from almanac.core.settings import DataDir, Project
    from almanac.flows.server.start import run_server

    project = Project.locate()
    project.require()
    return run_server(project, DataDir.locate(data, project))
