"""Imports unstructured so that it neither calls home nor loads or downloads a model, and guesses no heading."""

import os
import re
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

# Its telemetry and its notice; read as it is imported.
_SILENT = {"DO_NOT_TRACK": "true", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}
_TOKENIZE = "unstructured.nlp.tokenize"
_HTML_PARSER = "unstructured.partition.html.parser"
_NO_BULLET = re.compile(r"[-*]\S")  # -5 °C, *a note


@cache
def partitioner(name: str) -> Any:
    """The function `partition_NAME` of unstructured.

    Its classification of texts is left out: it needs spaCy's English model, which it downloads at run time, and takes
    any short line for a title. What is neither styled nor tagged as a heading is text. In place of the module with that
    model stands one without functions, so that nothing can load it.
    """
    os.environ.update(_SILENT)
    import unstructured  # noqa: F401  # named here, its version counts among what decides a result

    if _TOKENIZE not in sys.modules:
        stand_in = ModuleType(_TOKENIZE)
        vars(stand_in).update(dict.fromkeys(("pos_tag", "sent_tokenize", "word_tokenize")))
        sys.modules[_TOKENIZE] = stand_in
    module = import_module(f"unstructured.partition.{name}")
    for target in (module, import_module(_HTML_PARSER)) if name == "html" else (module,):
        for function, is_so in (
            ("is_possible_narrative_text", True),
            ("is_possible_title", False),
            ("is_possible_numbered_list", False),
        ):
            if hasattr(target, function):
                setattr(target, function, _always(is_so))
    if name == "html":
        _keep_all_texts(import_module(_HTML_PARSER))
    return getattr(module, f"partition_{name}")


def _keep_all_texts(parser: Any) -> None:
    """Texts of a single letter or digit, which its parser drops, are texts, too; a minus or an asterisk that touches a
    word is no bullet.
    """
    derived = parser.derive_element_type_from_text

    def kind_of(text: str) -> Any:
        kind = derived(text)
        is_text = (kind is None and text.isalnum()) or (kind is parser.ListItem and _NO_BULLET.match(text) is not None)
        return parser.Text if is_text else kind

    parser.derive_element_type_from_text = kind_of


def _always(is_so: bool) -> Any:
    return lambda *_args, **_options: is_so
