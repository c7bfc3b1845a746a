"""The precision in which texts are embedded: bfloat16 where the hardware has it. Where it has not, it is emulated, and
slower than float32.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from almanac.core.extras import missing_package
from almanac.core.logs import get_logger
from almanac.schemas.errors import DeclarationError
from almanac.schemas.manifest import EmbedderInfo

if TYPE_CHECKING:
    from almanac.schemas.declaration.embed_section import Embed

log = get_logger("almanac.index")

_CPU = Path("/proc/cpuinfo")
_GPU_DRIVER = Path("/proc/driver/nvidia/version")
_NATIVE = {"avx512_bf16", "amx_bf16", "bf16"}  # Intel from Cooper Lake and AMD from Zen 4; the last is Arm's


def resolve(embed: "Embed", built: EmbedderInfo | None = None) -> "Embed":
    """Returns the embedder with `precision: auto` resolved: to that of a version's vectors, else to bfloat16 where this
    machine has it.

    A knowledge base therefore keeps the precision of its first build, whichever machine refreshes it.
    """
    if embed.provider != "local" or embed.precision != "auto":
        return embed
    if built is None or built.provider != "local":
        return embed.model_copy(update={"precision": "bfloat16" if has_bfloat16() else "float32"})
    precision = built.precision or "float32"  # a manifest that says nothing is of a time when float32 was the default
    return embed.model_copy(update={"precision": precision})


def require_precision(embed: "Embed") -> None:
    """Warns where this machine lacks bfloat16, the embedder is resolved to it, and `reuse: tolerant` is declared: then
    float32 stands in for it.

    Raises DeclarationError, with the processor or GPU found, where `reuse` is exact.
    """
    if embed.precision != "bfloat16":
        return
    name, is_native = _hardware()
    if is_native:
        return
    lacking = (
        f"bfloat16 needs a processor with avx512_bf16, amx_bf16 or Arm's bf16, or a GPU of capability 8.0; found {name}"
    )
    if embed.reuse == "exact":
        raise DeclarationError(
            lacking,
            where="embed.precision",
            hint="run on a machine that has it; or write reuse: tolerant, and this one embeds new texts in float32 "
            "beside the vectors that are there; "
            "or precision: float32, which runs everywhere and embeds every text anew",
        )
    log.warning(
        "float32_for_bfloat16",
        found=name,
        effect="texts embedded here have a cosine of about .9999 to what bfloat16 gives",
    )


def has_bfloat16() -> bool:
    return _hardware()[1]


def _hardware() -> tuple[str, bool]:
    return _gpu() or _processor()


def has_gpu() -> bool:
    """Whether torch can use a GPU. It is not imported where the system has no driver for one, and need not be
    installed.
    """
    if not _GPU_DRIVER.exists() or missing_package("models") is not None:
        return False
    import torch

    return torch.cuda.is_available()


def _gpu() -> tuple[str, bool] | None:
    if not has_gpu():
        return None
    import torch

    capability = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()}, capability {capability[0]}.{capability[1]}", capability >= (8, 0)


def _processor() -> tuple[str, bool]:
    text = _CPU.read_text(errors="replace") if _CPU.exists() else ""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)", text, re.MULTILINE)
    name = re.search(r"^model name\s*:\s*(.*)", text, re.MULTILINE)
    if flags is None:
        return "a processor of which nothing is known", False
    return f"{name[1] if name else 'a processor'} without them", bool(_NATIVE & set(flags[1].split()))
