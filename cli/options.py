"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

KB = Annotated[
    str, typer.Argument(metavar="KB", help="a name under knowledge/, or a path to a declaration", show_default=False)
]
KBs = Annotated[
    str | None,
    typer.Argument(
        metavar="KB[,KB…]",
        help=(
            "names under knowledge/, or a path to a declaration; default: that of INDEX_NAME, or the only one "
            "that is published"
        ),
        show_default=False,
    ),
]
After = Annotated[
    list[str] | None,
    typer.Option(
        "--after",
        metavar="QUESTION",
        help="a question asked before, which this one may continue; repeatable, oldest first",
        show_default=False,
    ),
]
Env = Annotated[
    str | None,
    typer.Option(
        "--env", metavar="ENV", help="overlay KB.ENV.yaml beside the declaration; also ALMANAC_ENV", show_default=False
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="moves all of data/, also to s3://BUCKET/PREFIX; or ALMANAC_DATA",
        show_default=False,
    ),
]
Project = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="DIR",
        help="the folder with knowledge/ and data/; also ALMANAC_PROJECT; default: found upwards",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document on stdout")]
Version = Annotated[
    str | None,
    typer.Option("--version", metavar="V", help="answer from this version, not the live one", show_default=False),
]
VersionArgument = Annotated[
    str | None, typer.Argument(metavar="[V]", help="a version such as v0002; default: the live one", show_default=False)
]
BeforeArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[V]",
        help="a version such as v0002; default: the newest older one that the gate let pass",
        show_default=False,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option("-k", min=1, max=1000, metavar="N", help="hits; default: the declaration's", show_default=False),
]
SearchMode = Annotated[
    Literal["dense", "lexical", "hybrid"] | None,
    typer.Option("--mode", help="default: the declaration's", show_default=False),
]
Workspace = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="W",
        help="only what belongs to it, where retrieve.workspace is declared",
        show_default=False,
    ),
]
Parts = Annotated[
    list[str] | None,
    typer.Option(
        "--part",
        metavar="NAME=TEXT",
        help="for the declared query template, such as product='Kettle 2'; may be given again",
        show_default=False,
    ),
]
Floor = Annotated[
    float | None, typer.Option("--floor", min=-1, max=1, metavar="X", help="smallest dense cosine", show_default=False)
]
