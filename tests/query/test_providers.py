"""Every server that docs/models.md names has an overlay, which is asked as it says, by the real client."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.query.models.generators import load_generator
from almanac.query.published import PublishedIndex
from almanac.schemas.errors import DeclarationError
from tests.conftest import ROOT, Example
from tests.loopback.mistral import LoopbackMistral

# The variable with the address, and that with the key; None: the server wants none.
_VARIABLES = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "azure": ("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY"),
    "gemini": ("GEMINI_BASE_URL", "GEMINI_API_KEY"),
    "ollama": ("OLLAMA_BASE_URL", None),
    "vllm": ("VLLM_BASE_URL", "VLLM_API_KEY"),
    "lmstudio": ("LMSTUDIO_BASE_URL", None),
    "llamacpp": ("LLAMACPP_BASE_URL", None),
}
_TABLE = (ROOT / "docs" / "models.md").read_text().split("## Keys")[0]
_OVERLAYS = re.findall(rf"`(\w+\.(?:{'|'.join(_VARIABLES)}))`", _TABLE)


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackMistral]:
    with LoopbackMistral(needs_key=False) as serving:
        yield serving


def test_every_overlay_that_is_there_is_named() -> None:
    there = {path.stem for path in (ROOT / "knowledge").glob("*.*.yaml") if path.stem.split(".")[1] in _VARIABLES}
    assert there == set(_OVERLAYS)


@pytest.mark.parametrize("overlay", _OVERLAYS)
def test_an_overlay_asks_its_server_with_its_key_alone(
    overlay: str, server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kb, env = overlay.split(".")
    address, key = _VARIABLES[env]
    monkeypatch.setenv(address, f"{server.url}/v1")
    for number, name in enumerate(filter(None, {name for _, name in _VARIABLES.values()})):
        monkeypatch.setenv(name, f"key-{number}-of-{name}")
    declaration = load_declaration(kb, env)
    generator = load_generator(declaration.generate, DataDir(tmp_path))
    assert generator is not None
    server.headers.clear()
    assert generator.generate([{"role": "user", "content": "[1] Yes."}], temperature=0, max_tokens=5)
    sent = server.headers[-1].get("authorization", "")
    assert sent.endswith(f"-of-{key}") if key else not sent


@pytest.mark.slow
@pytest.mark.xdist_group("voyago")
@pytest.mark.usefixtures("voyago")
def test_an_overlay_answers_from_the_version_that_is_live(
    voyago: Example, server: LoopbackMistral, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("GEMINI_API_KEY", "any")
    declaration = load_declaration("voyago", "gemini")
    with PublishedIndex(declaration, DataDir(voyago.almanac.data)) as index:
        answer = index.ask("What does the tour to Hội An cost?")
    assert answer.answered and server.requests[-1]["model"] == declaration.generate.model


@pytest.mark.parametrize(
    ("embed", "generate", "finding"),
    [
        (
            "base_url: 'http://a.example/v1', key: '${A}'",
            "base_url: 'http://b.example/v1', key: '${A}'",
            "is the key of",
        ),
        ("base_url: 'http://a.example/v1', key: '${A}'", "base_url: 'http://b.example/v1', key: '${B}'", None),
        ("base_url: 'http://a.example/v1', key: '${A}'", "base_url: 'http://a.example/v2', key: '${A}'", None),
        ("base_url: 'http://a.example/v1', key: sk-1", "key: '${B}'", "must name a variable"),
        ("server_url: 'http://a.example'", "key: '${B}'", "server_url belongs to provider: mistral"),
        ("base_url: 'http://a.example/v1', options: {a: 1}", "key: '${B}'", "options belongs to providers of other"),
        ("base_url: 'http://u:p@a.example/v1'", "key: '${B}'", "must not hold a user or a password"),
    ],
)
def test_a_declaration_with_a_key_for_two_servers_or_a_key_in_it_is_refused(
    tmp_path: Path, embed: str, generate: str, finding: str | None
) -> None:
    path = tmp_path / "kb.yaml"
    path.write_text(
        "name: keys\nsources: [{name: s, kind: files, glob: '*.md', yields: documents}]\n"
        f"embed: {{provider: openai, {embed}}}\ngenerate: {{provider: openai, model: small, {generate}}}\n"
    )
    if finding is None:
        assert load_declaration(str(path)).generate.key_variable in ("A", "B")
        return
    with pytest.raises(DeclarationError, match=finding) as raised:
        load_declaration(str(path))
    assert "sk-1" not in str(raised.value)
