"""Identity and properties of a sentence-transformers model, read from its folder without loading the model."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from almanac.core.extras import Extra, require_extra
from almanac.core.settings import installation
from almanac.index.embedding import four_bits
from almanac.index.embedding.precision import resolve
from almanac.schemas.errors import DeclarationError
from almanac.schemas.hashing import canonical_json, file_sha256, sha256
from almanac.schemas.manifest import EmbedderInfo

if TYPE_CHECKING:
    from almanac.schemas.declaration.embed_section import Embed

_MINILM = "all-MiniLM-L6-v2"
BUNDLED = (_MINILM, four_bits.MODEL)  # names that no folder has to be given for
_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # their names in fingerprints
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_SETTINGS = (".json", ".txt", ".model")
_NOT_SETTINGS = ("data_config.json",)  # a list of training data, without effect on vectors
# prompt names, in the order in which sentence-transformers looks for them
_OF_QUESTIONS, _OF_TEXTS = ("query",), ("document", "passage", "corpus")


class PromptPair(NamedTuple):
    """Prompts prepended to queries and documents; empty for none."""

    query: str
    document: str


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model's folder and the name by which it was declared."""

    name: str
    path: Path

    def revision(self) -> str:
        """SHA-256 of the weights: of the file if there is only one, else of the hashes of all files. Raises
        DeclarationError where there are none.
        """
        files = sorted({file for pattern in _WEIGHTS for file in self.path.rglob(pattern)})
        if not files:
            raise DeclarationError(
                f"embed.model: '{self.name}' has no weights",
                where=str(self.path),
                hint="it needs model.safetensors; save it with SentenceTransformer.save()",
            )
        hashes = {
            str(file.relative_to(self.path)): _hash_file(file, file.stat().st_mtime_ns, file.stat().st_size)
            for file in files
        }
        return next(iter(hashes.values())) if len(hashes) == 1 else sha256(canonical_json(hashes))

    def settings(self) -> str:
        """SHA-256 of tokenizer, pooling and prompt files: with other settings, the same weights give other vectors."""
        files = sorted(
            f for f in self.path.rglob("*") if f.suffix in _SETTINGS and f.name not in _NOT_SETTINGS and f.is_file()
        )
        return sha256(canonical_json({str(f.relative_to(self.path)): file_sha256(f) for f in files}))

    def dimension(self) -> int:
        """Dimension of the model's vectors: of what they are truncated to, else from the last module that changes it,
        else from the transformer. Raises DeclarationError where it is unknown.
        """
        dimension = self._config("config.json").get("hidden_size")
        for module in self._modules():
            config = self._config(module.get("path") or ".", "config.json")
            kind = str(module.get("type", "")).rpartition(".")[2]
            if kind == "Pooling":
                dimension = (config.get("embedding_dimension") or config["word_embedding_dimension"]) * _pooling_modes(
                    config
                )
            elif kind == "Dense":
                dimension = config["out_features"]
        dimension = self._config("config_sentence_transformers.json").get("truncate_dim") or dimension
        if not isinstance(dimension, int):
            raise DeclarationError(
                f"embed.model: the dimension of '{self.name}' cannot be told",
                where=str(self.path),
                hint="is it a sentence-transformers folder?",
            )
        return dimension

    def max_seq_length(self) -> int | None:
        """Maximum input length in word pieces, beyond which texts are cut; None where no file declares it."""
        declared = self._config("sentence_bert_config.json").get("max_seq_length")
        limits = [
            self._config("config.json").get("max_position_embeddings"),
            self._config("tokenizer_config.json").get("model_max_length"),
        ]
        known = [int(n) for n in limits if n is not None]
        return declared or (min(known) if known else None)

    def prompts(self) -> PromptPair:
        """Returns the prompts that the model was trained with: those with the usual names, else its default prompt for
        both.

        An empty prompt counts as none. `encode_document` of sentence-transformers 6.2 would use neither `passage` nor
        the default prompt, because an empty `document`, which it adds itself and also writes into saved models, takes
        precedence. The prompt is therefore always passed to it explicitly.
        """
        config = self._config("config_sentence_transformers.json")
        named, default = config.get("prompts") or {}, config.get("default_prompt_name")
        query, document = (
            next((named[name] for name in names if named.get(name)), "") for names in (_OF_QUESTIONS, _OF_TEXTS)
        )
        if default is not None and not query and not document:
            query = document = named[default] or ""
        if not isinstance(query, str) or not isinstance(document, str):
            raise TypeError("a prompt is no text")
        return PromptPair(query, document)

    def tokenizer(self) -> Path | None:
        """The model's tokenizer.json; None where it has none."""
        path = self.path / "tokenizer.json"
        return path if path.is_file() else None

    def _modules(self) -> list[dict[str, Any]]:
        path = self.path / "modules.json"
        return list(json.loads(path.read_text())) if path.is_file() else []

    def _config(self, *parts: str) -> dict[str, Any]:
        path = self.path.joinpath(*parts)
        return dict(json.loads(path.read_text())) if path.is_file() else {}


class FourBitModel(ModelFolder):
    """The bundled model whose weights come in 4 bits: `path` is their file. What is known of it stands here.

    It has the revision and settings of the sentence-transformers folder that earlier versions unpacked it into, which
    makes the same vectors.
    """

    REVISION = "acbe30a834b10e5ed983c4021f3fec33901b10788e44afce4b4c6bd4e1c9c862"

    def revision(self) -> str:
        return self.REVISION

    def settings(self) -> str:
        return "c252033598b9aa9fd2ec03fea45ed437f64bf40c43dd2ee200eeb24755c90575"

    def dimension(self) -> int:
        return 384

    def max_seq_length(self) -> int:
        return 512

    def prompts(self) -> PromptPair:
        return PromptPair("query: ", "passage: ")

    def tokenizer(self) -> Path:
        return four_bits.TOKENIZER.find()


def bundled_for(language: str) -> tuple[str, str]:
    """Returns the bundled model that knows a language (a BCP 47 tag, or auto for several), and the reason, for
    people.
    """
    if language.lower().partition("-")[0] in ("en", "eng"):
        return _MINILM, f"knows English, small and fast; {four_bits.MODEL} knows a hundred languages"
    return four_bits.MODEL, f"knows a hundred languages, at twice the time; {_MINILM} knows English alone"


def find_model(embed: "Embed") -> ModelFolder:
    """Returns the folder of a declared model, bundled or on disk. Nothing is downloaded: names of models on a hub are
    not resolved.

    Raises DeclarationError where the folder is not a model's, or the bundled model is not installed; StorageError where
    that one is damaged.
    """
    if embed.model == four_bits.MODEL:
        return FourBitModel(embed.model, four_bits.WEIGHTS.find())
    if embed.model == _MINILM:
        return ModelFolder(embed.model, _minilm_folder())
    path = Path(embed.model).expanduser().resolve()
    if not (path / "config.json").is_file() and not (path / "modules.json").is_file():
        raise DeclarationError(
            f"embed.model: '{embed.model}' is neither a bundled model nor a sentence-transformers folder",
            where=str(path),
            hint=f"bundled: {', '.join(BUNDLED)}; or give the path of a folder written by SentenceTransformer.save()",
        )
    return ModelFolder(embed.model, path)


def require_models(embed: "Embed") -> None:
    """Raises UsageError where the embedder needs an extra that is not installed: a model that is not bundled, `models`;
    an API, that of its provider.
    """
    extras: dict[str, Extra] = {"mistral": "mistral", "openai": "openai"}
    if embed.provider in extras:
        require_extra(extras[embed.provider], f"embed.provider: {embed.provider}")
    elif embed.provider == "local" and embed.model not in BUNDLED:
        require_extra("models", f"embed.model: {embed.model}", embed.model, f"one of the bundled: {', '.join(BUNDLED)}")


def _minilm_folder() -> Path:
    """Where a build of the package has put it (setup.py)."""
    folder = installation() / "index" / "embedding" / "minilm"
    if not (folder / "model.safetensors").is_file():
        raise DeclarationError(
            f"embed.model: '{_MINILM}' is missing from this installation",
            where=str(folder),
            hint="make setup; or install the wheel again",
        )
    return folder


def prompts_of(embed: "Embed") -> PromptPair:
    """Returns the prompts for queries and documents: as declared, else those in the model's folder. Raises
    DeclarationError where that cannot be read.
    """
    declared = embed.prompts
    if embed.provider != "local" or (declared.query is not None and declared.document is not None):
        return PromptPair(declared.query or "", declared.document or "")
    folder = find_model(embed)
    try:
        own = folder.prompts()
    except (OSError, LookupError, ValueError, TypeError, AttributeError) as error:
        where = str(folder.path / "config_sentence_transformers.json")
        raise DeclarationError(
            f"embed.model: the prompts of '{embed.model}' cannot be read: {error!r}",
            where=where,
            hint="declare embed.prompts",
        ) from error
    return PromptPair(
        own.query if declared.query is None else declared.query,
        own.document if declared.document is None else declared.document,
    )


def describe_embedder(embed: "Embed") -> EmbedderInfo:
    """Returns the same as `load_embedder(embed).info` without loading the model or sending a request: 0.1 s for 90 MB
    of weights.

    `precision: auto` is resolved for this machine (`precision.resolve`). Raises DeclarationError where the model cannot
    be read.
    """
    if embed.provider != "local":
        from almanac.schemas.declaration.api_section import EMBEDDERS, provided

        described: EmbedderInfo = provided(EMBEDDERS, embed.provider).load().describe(embed)
        return described
    precision = resolve(embed).precision
    folder, prompts = find_model(embed), prompts_of(embed)
    try:
        revision, dimension = folder.revision(), folder.dimension()
        made_by = {
            "provider": embed.provider,
            "revision": revision,
            "dimension": dimension,
            "max_seq_length": folder.max_seq_length(),
            "normalise": True,
            "precision": _PRECISIONS[precision],
            "settings": folder.settings(),
            **({"document_prompt": prompts.document} if prompts.document else {}),
        }
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DeclarationError(
            f"embed.model: '{embed.model}' cannot be read: {error!r}",
            where=str(folder.path),
            hint="save the model again",
        ) from error
    fingerprint = sha256(canonical_json(made_by))[:16]
    return EmbedderInfo(
        provider=embed.provider, model=embed.model, revision=revision, dimension=dimension, fingerprint=fingerprint,
        query_prompt=prompts.query, document_prompt=prompts.document, precision=precision,
    )  # fmt: skip


def _pooling_modes(config: dict[str, Any]) -> int:
    mode = config.get("pooling_mode")
    if mode is not None:
        return 1 if isinstance(mode, str) else len(mode)
    return sum(bool(value) for key, value in config.items() if key.startswith("pooling_mode_")) or 1


@functools.lru_cache(maxsize=16)
def _hash_file(path: Path, _mtime_ns: int, _size: int) -> str:
    return file_sha256(path)
