"""The section `run` of a declaration."""

from typing import Literal

from pydantic import Field

from almanac.schemas.declaration.model import DeclaredModel


class RunsOn(DeclaredModel):
    """How a run's work is done. Results are the same, and switching computes nothing anew."""

    engine: Literal["local", "dask"] = Field(
        "local",
        description=(
            "local: in the run's process; dask: on the workers of the cluster that `ALMANAC_DASK` names, "
            "`tcp://HOST:PORT`, or `local[N]` for N processes on this machine"
        ),
    )
    crawls: int = Field(
        4,
        ge=1,
        le=16,
        description=(
            "how many sites are crawled at once, each in a process of some 150 MB; those of one host, one after another"
        ),
    )
