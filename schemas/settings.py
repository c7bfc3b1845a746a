"""Places and environment: the one module that reads the process environment, apart from `${VAR}` in declarations and Prefect's own variables in flows/."""

import os
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import StorageError

# Everything here answers offline and reports to nobody. It has to be set before an engine is imported.
_QUIET_ENGINES = {
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
    "UNSTRUCTURED_DISABLE_NOTICE": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}


def project_root() -> Path:
    """The checkout that this code runs from."""
    return Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class DataDir:
    """Where everything that is not code lies."""

    root: Path

    @classmethod
    def locate(cls, option: Path | str | None = None) -> "DataDir":
        """The option, else ALMANAC_DATA, else `data/` in the checkout."""
        chosen = option or os.environ.get("ALMANAC_DATA") or project_root() / "data"
        return cls(Path(chosen).expanduser().resolve())

    def raw(self, kb: str, source: str) -> Path:
        return self.root / "raw" / kb / source

    def processed(self, kb: str) -> Path:
        return self.root / "processed" / kb

    def runs(self, kb: str) -> Path:
        return self.processed(kb) / "runs"

    @property
    def vectors(self) -> Path:
        return self.root / "vectors"

    def index(self, kb: str) -> Path:
        return self.root / "index" / kb

    def versions(self, kb: str) -> Path:
        return self.index(kb) / "versions"

    @property
    def limits(self) -> Path:
        return self.root / "limits"

    @property
    def prefect_home(self) -> Path:
        return self.root / "prefect"

    def require_writable(self) -> None:
        """Raises StorageError unless files can be made here."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise StorageError(
                f"the data directory cannot be written: {error.strerror}",
                where=str(self.root),
                hint="choose another with --data DIR or ALMANAC_DATA, or mend its permissions",
            ) from error


def environment(option: str | None = None) -> tuple[str, str]:
    """The environment whose overlay is asked for, and by what: the option, else ALMANAC_ENV. Empty where there is none."""
    return (option, "--env") if option is not None else (os.environ.get("ALMANAC_ENV", ""), "ALMANAC_ENV")


def index_name() -> str | None:
    """INDEX_NAME: the knowledge base that is asked where a request names none."""
    return os.environ.get("INDEX_NAME", "").strip() or None


def mistral_api_key() -> str | None:
    """MISTRAL_API_KEY. Read at every request and kept by nobody, so that no object, log or traceback can show it."""
    return os.environ.get("MISTRAL_API_KEY", "").strip() or None


def quiet_engines() -> None:
    """Switches off telemetry, downloads and notices of the engines. Call before importing any of them."""
    os.environ.update(_QUIET_ENGINES)
    for name in [n for n in os.environ if n.startswith("GX_CLOUD_")]:
        del os.environ[name]
