"""Real models of a few dimensions, with weights by a seed and the bundled model's tokenizer, saved as
sentence-transformers saves them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from almanac.core.settings import quiet_engines
from almanac.index.embedding.model_folder import find_model
from almanac.schemas.declaration.embed_section import Embed

READS = 32  # tokens
DIMENSION = 16


def save_embedder(folder: Path, *, prompts: dict[str, Any] | None = None, default: str | None = None) -> Path:
    """A bi-encoder. `prompts` and `default` stand in its settings as they are."""
    pytest.importorskip("torch", reason="needs the extra models")
    quiet_engines()
    from sentence_transformers import SentenceTransformer
    from transformers import BertModel

    _save(BertModel, folder.with_name(f"{folder.name}-bare"))
    SentenceTransformer(str(folder.with_name(f"{folder.name}-bare")), device="cpu", local_files_only=True).save(
        str(folder)
    )
    settings = folder / "config_sentence_transformers.json"
    config = json.loads(settings.read_text())
    config["prompts"].update(prompts or {})
    settings.write_text(json.dumps({**config, "default_prompt_name": default}))
    return folder


KINDS = ("cls", "max", "dense", "truncated", "distilbert", "mpnet", "xlm-roberta")


def save_kind(folder: Path, kind: str) -> Path:
    """A bi-encoder of another architecture, or with other modules behind BERT."""
    pytest.importorskip("torch", reason="needs the extra models")
    quiet_engines()
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    names = {"distilbert": "DistilBert", "mpnet": "MPNet", "xlm-roberta": "XLMRoberta"}
    bare = folder.with_name(f"{folder.name}-bare")
    _save(getattr(transformers, f"{names.get(kind, 'Bert')}Model"), bare)
    modules = [Transformer(str(bare)), Pooling(DIMENSION, kind if kind in ("cls", "max") else "mean")]
    if kind == "dense":
        modules.append(Dense(DIMENSION, 12))
    SentenceTransformer(modules=modules, device="cpu", truncate_dim=8 if kind == "truncated" else None).save(
        str(folder)
    )
    return folder


def save_cross_encoder(folder: Path, *, scores: int = 1) -> Path:
    """A cross-encoder that gives each pair so many scores."""
    pytest.importorskip("torch", reason="needs the extra models")
    quiet_engines()
    from sentence_transformers import CrossEncoder
    from transformers import BertForSequenceClassification

    _save(BertForSequenceClassification, folder.with_name(f"{folder.name}-bare"), num_labels=scores)
    CrossEncoder(str(folder.with_name(f"{folder.name}-bare")), device="cpu", local_files_only=True).save(str(folder))
    return folder


def _save(kind: Any, folder: Path, **settings: Any) -> None:
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        str(find_model(Embed()).path), local_files_only=True, model_max_length=READS
    )
    torch.manual_seed(7)
    config = kind.config_class(
        vocab_size=len(tokenizer), hidden_size=DIMENSION, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=DIMENSION, hidden_dim=DIMENSION, pad_token_id=tokenizer.pad_token_id,
        max_position_embeddings=READS + 2, initializer_range=0.5, **settings,
    )  # fmt: skip
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
