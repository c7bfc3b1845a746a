"""Detects hardware support for bfloat16. Without native support it is emulated, and slower than float32."""

import re
from pathlib import Path

from almanac.schemas.errors import DeclarationError

_CPU = Path("/proc/cpuinfo")
_GPU_DRIVER = Path("/proc/driver/nvidia/version")
_NATIVE = {"avx512_bf16", "amx_bf16", "bf16"}  # Intel from Cooper Lake and AMD from Zen 4; the last is Arm's


def require_bfloat16() -> None:
    """Raises DeclarationError, with the processor or GPU found, where bfloat16 is not native. Torch is imported only where a GPU driver is installed."""
    name, is_native = _found()
    if not is_native:
        raise DeclarationError(
            f"bfloat16 needs a processor with avx512_bf16, amx_bf16 or Arm's bf16, or a GPU of capability 8.0; found {name}",
            where="embed.precision",
            hint="write precision: float32, which runs everywhere; its vectors are other ones, so the next run embeds everything anew",
        )


def has_bfloat16() -> bool:
    return _found()[1]


def _found() -> tuple[str, bool]:
    return _gpu() or _processor()


def _gpu() -> tuple[str, bool] | None:
    if not _GPU_DRIVER.exists():
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    capability = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()}, capability {capability[0]}.{capability[1]}", capability >= (8, 0)


def _processor() -> tuple[str, bool]:
    text = _CPU.read_text(errors="replace") if _CPU.exists() else ""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)", text, re.MULTILINE)
    name = re.search(r"^model name\s*:\s*(.*)", text, re.MULTILINE)
    if flags is None:
        return "a processor of which nothing is known", False
    return f"{name[1] if name else 'a processor'} without them", bool(_NATIVE & set(flags[1].split()))
