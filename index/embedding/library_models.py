"""Models of other folders, and every model on a GPU: loaded by sentence-transformers, which the extra `models` brings.

On a processor, such a model is converted once into OpenVINO's form, if that makes the same vectors; the result is kept
in the user's cache, and from then on nothing imports torch. What cannot be converted is computed by its library.
"""

import json
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from almanac.core.durable import move, remove, write_file
from almanac.core.extras import require_extra
from almanac.core.logs import get_logger
from almanac.core.settings import model_cache, quiet_engines
from almanac.index.embedding.four_bits import FourBits
from almanac.index.embedding.model_folder import BUNDLED, ModelFolder
from almanac.index.embedding.open_vino import Encoder, Pieces, read_model
from almanac.index.embedding.precision import has_gpu
from almanac.index.embedding.word_pieces import read_word_pieces
from almanac.schemas.errors import DeclarationError
from almanac.schemas.hashing import canonical_json, file_sha256, sha256

_Vectors = npt.NDArray[np.float32]
_log = get_logger("almanac.models")
# texts in one forward pass; longer ones gain nothing on a CPU, and shorter ones leave a GPU idle
_REQUESTS = {"cpu": 32, "cuda": 1024}
_SAME = 0.99999  # cosine from which on vectors are the same
# one by one and together, short, odd, and longer than any model reads
_TRIED = [
    "When do boats leave?",
    "é",
    "Đà Nẵng: 12 Uhr, 人人生而自由 [MASK] </s>",
    "a longer text, word by word. " * 20,
    "w " * 9000,
]
_PROMPT = "query: "  # some models do not count it
_MODEL, _CUTTER, _FACTS = "model.xml", "tokenizer.json", "converted.json"
_SHOWN = 500  # characters of what the libraries say
_ABANDONED_S = 3600  # after which a conversion that has not ended was killed


class LibraryModel:
    """A sentence-transformers model as its library computes it, on a GPU where there is one. Safe to share among
    threads.

    Raises DeclarationError where it cannot be loaded, or makes vectors of another dimension than it declares.
    """

    def __init__(self, folder: ModelFolder, dimension: int, *, is_half: bool) -> None:
        self.model = load_library_model(folder, is_half=is_half)
        self._lock = threading.Lock()  # fast tokenizers keep padding as state
        own_dimension = self.model.get_embedding_dimension()
        if own_dimension != dimension:
            raise DeclarationError(
                f"embed.model: '{folder.name}' declares dimension {dimension} and produces {own_dimension}",
                where=folder.name,
                hint="save the model again",
            )

    def __call__(self, texts: Sequence[str], kind: str, prompt: str) -> _Vectors:
        """Returns unit vectors, float32 (n, dimension), in the order of the texts, each with the prompt before it."""
        with self._lock:
            encode = getattr(self.model, f"encode_{kind}")
            size = _REQUESTS[self.model.device.type]
            options = {"prompt": prompt, "batch_size": size, "normalize_embeddings": True, "show_progress_bar": False}
            return np.asarray(encode(list(texts), **options), dtype=np.float32)


def load_library_model(folder: ModelFolder, *, is_half: bool) -> Any:
    """Loads a SentenceTransformer; with `is_half`, its layers in bfloat16."""
    require_extra("models", f"embed.model: {folder.name}", folder.name, f"one of the bundled: {', '.join(BUNDLED)}")
    quiet_engines()
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as place:
        path = folder.path
        if path.is_file():
            path = Path(place)
            _write_folder(folder, path)
        try:
            model = SentenceTransformer(
                str(path),
                device="cuda" if has_gpu() else "cpu",
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"torch_dtype": torch.float32},
            )
        except Exception as error:  # transformers raises many unrelated types for a folder that it cannot read
            raise DeclarationError(
                f"embed.model: '{folder.name}' cannot be loaded: {error}",
                where=str(folder.path),
                hint="save the model again",
            ) from error
    if is_half:
        model[0].to(torch.bfloat16).register_forward_hook(_pool_in_single_precision)
    return model


@dataclass(frozen=True, slots=True)
class Converted:
    """A kept model: `inputs` names what it takes, `padding` is the number that stands for no word piece, `longest` the
    number of word pieces of a text that are read, `width` that of a vector.
    """

    folder: Path
    inputs: list[str]
    padding: int
    longest: int
    width: int

    def encoder(self, *, is_half: bool) -> Encoder:
        """Returns what encodes texts by it. Safe to share among threads."""
        cut = partial(read_word_pieces(self.folder / _CUTTER).numbers, longest=self.longest)
        return Encoder(read_model(self.folder / _MODEL), cut, self._take, self.width, is_half=is_half)

    def _take(self, pieces: Pieces) -> list[npt.NDArray[Any]]:
        longest = max(map(len, pieces))
        numbers = np.array([[*piece, *[self.padding] * (longest - len(piece))] for piece in pieces], dtype=np.int64)
        mask = np.array([[1] * len(piece) + [0] * (longest - len(piece)) for piece in pieces], dtype=np.int64)
        made = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
        return [made[name] for name in self.inputs]


def convert(folder: ModelFolder, dimension: int) -> Converted | None:
    """Returns a folder's model in OpenVINO's form, converted where it is not yet; None where that makes other vectors
    than the library, or none.
    """
    made_of = {"weights": folder.revision(), "settings": folder.settings(), "openvino": version("openvino")}
    cache_dir = model_cache() / f"openvino-{sha256(canonical_json(made_of))[:16]}"
    facts = _read(cache_dir)
    if facts is None:
        facts = _convert(folder, dimension, cache_dir)
    return Converted(cache_dir, **facts) if facts else None


def _read(cache_dir: Path) -> dict[str, Any] | None:
    """What is told of a kept model, nothing of one that cannot be converted; None where there is none, or its files
    are not those that were written.
    """
    try:
        facts = json.loads((cache_dir / _FACTS).read_text())
        is_whole = all(file_sha256(cache_dir / name) == digest for name, digest in facts["files"].items())
        return dict(facts["model"]) if is_whole else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _convert(folder: ModelFolder, dimension: int, cache_dir: Path) -> dict[str, Any]:
    """Converts a model into `kept`, and returns what is told of it: nothing where that cannot be done, or not kept."""
    _log.info("converting_model_once", model=folder.name, folder=str(cache_dir))
    library = LibraryModel(folder, dimension, is_half=False)
    try:
        cache_dir.parent.mkdir(parents=True, exist_ok=True)
        _sweep(cache_dir)
        with tempfile.TemporaryDirectory(
            prefix=f".{cache_dir.name}-", dir=cache_dir.parent, ignore_cleanup_errors=True
        ) as name:
            temporary = Path(name)
            facts = _tried(library, folder, dimension, temporary)
            files = {path.name: file_sha256(path) for path in temporary.iterdir()}
            write_file(temporary / _FACTS, json.dumps({"model": facts, "files": files}))
            temporary.chmod(0o755)
            if cache_dir.is_dir():
                remove(cache_dir)
            move(temporary, cache_dir)
        return facts
    except OSError as error:
        if (theirs := _read(cache_dir)) is not None:  # another process was quicker
            return theirs
        hint = "ALMANAC_CACHE names a folder that can be written: loading it takes longer each time"
        why = error.strerror or str(error)
        _log.warning("model_not_kept", model=folder.name, folder=str(cache_dir), why=why, hint=hint)
        return {}


def _sweep(cache_dir: Path) -> None:
    """Removes what conversions of this model that were killed have left."""
    for left in cache_dir.parent.glob(f".{cache_dir.name}-*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_S:
            remove(left)


def _tried(library: "LibraryModel", folder: ModelFolder, dimension: int, temporary: Path) -> dict[str, Any]:
    """Writes a model's files, and returns what is told of it; nothing, and no file, where it makes other vectors."""
    try:
        facts = _write(library.model, temporary) | {"width": dimension}
        encode = Converted(temporary, **facts).encoder(is_half=False)
        least = (library(_TRIED, "query", _PROMPT) * encode(_TRIED, "query", _PROMPT)).sum(axis=1).min()
        if not least > _SAME:
            raise ValueError(f"of its vectors one has a cosine of {least:.6f}")
        return facts
    except Exception as error:  # torch, transformers and OpenVINO raise many unrelated types
        _log.info("model_left_to_its_library", model=folder.name, why=" ".join(str(error).split())[:_SHOWN])
        for path in temporary.iterdir():
            remove(path, synced=False)
        return {}


def _write(model: Any, folder: Path) -> dict[str, Any]:
    import openvino  # type: ignore[import-untyped]  # ships no types
    import torch

    class Whole(torch.nn.Module):
        """From word pieces to what the last module gives, with the inputs that the first one takes by name."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: Any) -> Any:
            return model(dict(zip(inputs, given, strict=True)))["sentence_embedding"][:, : model.truncate_dim]

    features = model.preprocess(["Two texts,", "of which one is longer."])
    inputs = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in features]
    example = tuple(features[name] for name in inputs)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what tracing holds for constant, which `_convert` tries
        converted = openvino.convert_model(Whole().eval(), example_input=example, input=[(-1, -1)] * len(inputs))
    openvino.save_model(converted, folder / _MODEL, compress_to_fp16=False)
    write_file(folder / _CUTTER, model.tokenizer.backend_tokenizer.to_str())
    return {"inputs": inputs, "padding": model.tokenizer.pad_token_id, "longest": model.max_seq_length}


def _write_folder(folder: ModelFolder, path: Path) -> None:
    """Writes the model whose weights come in 4 bits as sentence-transformers reads it, which a GPU needs."""
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    weights = FourBits(folder.path)
    model = BertModel(BertConfig(**weights.config))
    model.load_state_dict({name: torch.from_numpy(weights.array(name)) for name in weights.names}, strict=False)
    model.save_pretrained(path)
    marks = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_file=str(folder.tokenizer()),
        model_max_length=folder.max_seq_length(),
        **{f"{name}_token": mark for name, mark in marks.items()},
    )
    tokenizer.save_pretrained(path)
    parts = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, place) in enumerate(parts.items())
    ]
    pooling = {"word_embedding_dimension": weights.config["hidden_size"], "pooling_mode_mean_tokens": True}
    write_file(path / "modules.json", json.dumps(modules))
    write_file(path / "1_Pooling" / "config.json", json.dumps(pooling))


def _pool_in_single_precision(_module: Any, _inputs: Any, features: Any) -> Any:
    """Casts the layers' outputs to float32, so that only the layers run in bfloat16.

    The cosine to vectors made in float32 throughout is .9999; with mean pooling in bfloat16 it is .996, and lengths are
    off.
    """
    import torch

    return {
        name: value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 else value
        for name, value in features.items()
    }
