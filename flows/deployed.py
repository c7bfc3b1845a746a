"""A flow for each knowledge base: the entrypoint `almanac.flows.deployed.voyago` gives the deployment the name
`voyago/refresh`.
"""

from typing import Any

from prefect import Flow

from almanac.flows.refresh import flow_of as _flow_of


def __getattr__(name: str) -> "Flow[..., Any]":
    if name.startswith("_"):
        raise AttributeError(name)
    return _flow_of(name)
