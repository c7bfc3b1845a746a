"""Prepares the Prefect server before the worker starts: concurrency limit, automations, and no deployments of
undeclared knowledge bases.
"""

from collections.abc import Iterator

from prefect.client.orchestration import get_client
from prefect.logging.configuration import setup_logging

from almanac.core.load import load_declaration
from almanac.core.logs import get_logger, log_through_stdlib
from almanac.flows.environment import alert_webhook
from almanac.flows.limits import ensure_embedding_limit
from almanac.flows.server.automations import ensure_automations
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import AlmanacError

log = get_logger("almanac.server")
_PAGE = 200


def ensure_resources(ui: str) -> None:
    """Creates the concurrency limit and the automations where they are missing. Call it after deploying."""
    setup_logging()
    log_through_stdlib()
    ensure_embedding_limit()
    webhook = alert_webhook()
    names = ensure_automations(list(_deployed()), webhook, ui)
    log.info(
        "automations",
        names=", ".join(names),
        alerts="by webhook" if webhook else "nobody is called: ALMANAC_ALERT_WEBHOOK is not set",
    )


def remove_undeclared(declared: set[str]) -> None:
    """Removes the deployments of knowledge bases that are no longer declared; their scheduled runs could only fail."""
    with get_client(sync_client=True) as client:
        for deployment in client.read_deployments(limit=_PAGE):
            if "almanac" in deployment.tags and deployment.parameters.get("kb") not in declared:
                client.delete_deployment(deployment.id)
                log.warning(
                    "a deployment whose knowledge base is declared no more is removed",
                    kb=deployment.parameters.get("kb"),
                )


def deployments() -> list[str]:
    """All deployments, as `prefect deployment run` names them, such as `voyago/refresh`, in alphabetical order."""
    with get_client(sync_client=True) as client:
        all_deployments = client.read_deployments(limit=_PAGE)
        flows = {
            flow_id: client.read_flow(flow_id).name
            for flow_id in {deployment.flow_id for deployment in all_deployments}
        }
    return sorted(f"{flows[deployment.flow_id]}/{deployment.name}" for deployment in all_deployments)


def _deployed() -> Iterator[Declaration]:
    """The declarations of all deployments. Those that cannot be read are logged and skipped."""
    with get_client(sync_client=True) as client:
        deployments = client.read_deployments(limit=_PAGE)
    for deployment in deployments:
        if "kb" in deployment.parameters:
            try:
                yield load_declaration(deployment.parameters["kb"], deployment.parameters.get("env"))
            except AlmanacError as error:
                log.warning("a deployment's declaration cannot be read", deployment=deployment.name, error=str(error))
