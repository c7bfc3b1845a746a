"""Semantic chunking: ends chunks where the topic shifts, by the similarity of their sentences."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from almanac.schemas.declaration.chunk_section import ChunkLimits
from almanac.transforms.chunking.layout import Layout, Span
from almanac.transforms.chunking.packing import lines, pack_pieces, pieces_of, sentences, spaces, with_overlap, words

Embed = Callable[[list[str]], npt.NDArray[np.float32]]  # n texts → (n, dimension) float32 unit vectors, same order

_PARTS = 6  # pieces per chunk, about: sentences are joined up to size / 6 before they are embedded


def split_by_topic(layout: Layout, span: Span, limits: ChunkLimits, *, embed: Embed) -> Iterator[Span]:
    """Chunks of up to `size` units, cut so that the pieces within each are as similar as possible. A text that fits
    into one chunk is not embedded.

    Dynamic programming finds the optimal cuts: the reward of a chunk is how much more similar its pieces are to each
    other than pieces of the text on average (the "cluster" chunker of Chroma's "Evaluating Chunking Strategies", 2024).
    The same text and vectors give the same chunks.
    """
    if layout.length(span) <= limits.size:
        yield span
        return
    whole_sentences = pieces_of(layout, span, limits.size, (sentences, lines, spaces, words))
    pieces = list(pack_pieces(layout, whole_sentences, max(limits.size // _PARTS, 1), 0, ()))
    vectors = np.asarray(embed([layout.text[start:end] for start, end in pieces]), dtype=np.float64)
    chunk: Span | None = None
    for first, last in _best_groups(layout, pieces, vectors, limits.size):
        group = Span(pieces[first].start, pieces[last].end)
        chunk = (
            group
            if chunk is None
            else with_overlap(layout, chunk, group, limits.size, limits.overlap, (sentences, words))
        )
        yield chunk


def _best_groups(
    layout: Layout, pieces: list[Span], vectors: npt.NDArray[np.float64], size: int
) -> list[tuple[int, int]]:
    """(first, last) piece of each chunk, in order."""
    count = len(pieces)
    # of the vectors before each piece
    sums = np.concatenate([np.zeros((1, vectors.shape[1])), np.cumsum(vectors, axis=0)])
    usual = (float(sums[-1] @ sums[-1]) - count) / max(count * (count - 1), 1)  # mean similarity of two pieces
    best = np.zeros(count + 1)  # reward of the best cuts of the pieces before each
    begins = [0] * count  # first piece of the chunk that ends with each piece, in those cuts
    for last in range(count):
        reward, best[last + 1] = 0.0, -np.inf
        for first in range(last, -1, -1):
            if first < last:
                if layout.ruler.count(pieces[first].start, pieces[last].end) > size:
                    break
                reward += float(vectors[first] @ (sums[last + 1] - sums[first + 1])) - usual * (last - first)
            if best[first] + reward > best[last + 1]:
                best[last + 1], begins[last] = best[first] + reward, first
    groups = []
    last = count - 1
    while last >= 0:
        groups.append((begins[last], last))
        last = begins[last] - 1
    return groups[::-1]
