"""Vectors of golden questions, kept beside those of texts: an unchanged refresh judges by them and loads no model."""

from collections.abc import Callable, Sequence

from almanac.index.embedding.embedder import Embedder, Vectors
from almanac.index.vectors.store import VectorStore
from almanac.schemas.hashing import sha256


def question_key(question: str, prompt: str = "") -> str:
    """The key of a question's vector; a model may embed a question otherwise than the same words in a text. `prompt` is the embedder's for questions."""
    return sha256(f"query\0{prompt}{question}")


def are_kept(store: VectorStore, questions: Sequence[str], prompt: str = "") -> bool:
    """Whether each of them has its vector: then another embedder's version can be asked, and its model need not be there any more."""
    return not store.missing(question_key(question, prompt) for question in questions)


def kept_questions(store: VectorStore, load: Callable[[], Embedder], prompt: str = "") -> Callable[[Sequence[str]], Vectors]:
    """A function that embeds questions and keeps their vectors in `store`. `load` is only called where one is missing; its embedder's prompt is `prompt`."""

    def embed_queries(questions: Sequence[str]) -> Vectors:
        by_key = {question_key(question, prompt): question for question in questions}
        if missing := store.missing(by_key):
            store.write_part(missing, load().embed_queries([by_key[key] for key in missing]))
        return store.read([question_key(question, prompt) for question in questions])

    return embed_queries
