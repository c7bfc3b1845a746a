"""Stored vectors of golden questions. With them a run can measure recall without loading the model."""

from collections.abc import Callable, Mapping, Sequence

from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.index.vectors.vector_store import VectorStore
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import sha256


def question_key(question: str, prompt: str = "") -> str:
    """The key of a question's vector. It differs from the key of the same text: a model may embed questions
    differently. `prompt` is the query prompt.
    """
    return sha256(f"query\0{prompt}{question}")


class UnknownQuestions(Exception):
    """A question has no stored vector, and its embedder is not at hand."""


def known_questions(store: VectorStore, prompt: str = "") -> Callable[[Sequence[str]], Vectors]:
    """As `kept_questions`, without a model and without writing: for a version whose embedder is not declared any more.
    The function raises UnknownQuestions where a vector is missing or damaged.
    """

    def embed_queries(questions: Sequence[str]) -> Vectors:
        try:
            return store.read([question_key(question, prompt) for question in questions])
        except DamagedVersion as error:
            raise UnknownQuestions(error.message) from error

    return embed_queries


def kept_questions(
    store: VectorStore, load: Callable[[], Embedder], prompt: str = ""
) -> Callable[[Sequence[str]], Vectors]:
    """A function that embeds questions (list of n → float32 (n, dimension)) and stores their vectors. It calls `load`
    only for questions without a vector.
    """

    def embed_queries(questions: Sequence[str]) -> Vectors:
        by_key = {question_key(question, prompt): question for question in questions}
        keys = [question_key(question, prompt) for question in questions]
        embed_missing(by_key)
        try:
            return store.read(keys)
        except DamagedVersion:  # a part turned out to be damaged; its keys are missing from now on
            embed_missing(by_key)
            return store.read(keys)

    def embed_missing(by_key: Mapping[str, str]) -> None:
        if missing := store.missing(by_key):
            store.write_part(missing, load().embed_queries([by_key[key] for key in missing]))

    return embed_queries
