"""What is usual in a version: cosines mean different things by embedder, language and question, and are told from those
to a sample of its chunks.
"""

from functools import cached_property

import numpy as np

from almanac.index.embedding.embedder import Vectors
from almanac.index.reader import OpenVersion
from almanac.query.retrieval.fusion import UsualCosine

_SIZE = 1000


class Sample:
    """Up to 1,000 chunks of smallest id: ids are hashes, so the sample is random, and the same for the same content.
    Read on first use.
    """

    def __init__(self, opened: OpenVersion) -> None:
        self._opened = opened

    @cached_property
    def vectors(self) -> Vectors:
        """Their vectors, float32 (n, dimension)."""
        return self._opened.vectors(self._opened.smallest(_SIZE))

    def usual_cosine(self, vector: Vectors) -> UsualCosine:
        """What cosines to them a question has whose unit vector is given."""
        return UsualCosine.of(self.vectors @ vector)

    @cached_property
    def usual_likeness(self) -> float:
        """Mean cosine of two different ones; 0 for a single one."""
        count, total = len(self.vectors), self.vectors.sum(axis=0, dtype=np.float64)
        return (float(total @ total) - count) / (count * (count - 1)) if count > 1 else 0.0
