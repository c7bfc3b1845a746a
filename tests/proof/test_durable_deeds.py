"""What has to outlive a crash is written, moved and removed in one module, where crash points are counted: nobody else
touches the disk.
"""

import ast
from collections.abc import Iterator

from tests.conftest import ROOT

_ROOMS = ("schemas", "core", "spiders", "transforms", "index", "query", "flows", "cli")
_DEEDS = {
    *(
        "write_text",
        "write_bytes",
        "rename",
        "renames",
        "unlink",
        "rmdir",
        "touch",
        "symlink_to",
        "hardlink_to",
        "link",
        "truncate",
        "utime",
    ),
    *(
        "rmtree",
        "copyfile",
        "copytree",
        "copyfileobj",
        "mkstemp",
        "NamedTemporaryFile",
        "memmap",
        "open_memmap",
        "ParquetWriter",
    ),
}
# Who does it all the same, and why nothing of it can be seen after a crash.
_ALLOWED = {
    "core/durable.py": "is that module",
    "core/mapped.py:load_array": "maps a file to be read",
    "core/settings.py:require_writable": "a probe, gone at once",
    "core/store/fetching.py:mark_used": "when a folder was used last, which a crash makes older",
    "core/tables.py:__init__": "a temporary file, which `move` puts in its place",
    "core/tables.py:__exit__": "removes it after an error",
    "core/store/objects.py:take": "what broke off, in the file that `write_file` writes",
    "spiders/store/raw.py:journal": "opens a journal, of which each line is added by `append`",
    "spiders/crawling/browser.py": "a browser's profile, in a temporary folder",
    "index/build/child_process.py:start": "a file without a name",
    "index/verify/verify_rows.py:_to_open": "a copy in a temporary folder",
    "index/versions/lock.py:writer_lock": "the holder's name, which decides nothing",
    "index/chroma/copy.py": "in a version that is not finished, and thrown away",
    "index/vectors/vector_matrix.py": "in a version that is not finished, and thrown away",
    "index/vectors/vector_store.py:read_to_disk": "a file without a name",
    "index/api/rate_limit.py:wait": "an empty file, which is locked",
    "index/vectors/retention.py:_use_file": "an empty file, which is locked",
    "index/vectors/retention.py:_write": "the age of vectors, which a crash makes younger",
    "index/vectors/retention.py:_old_parts": "the age of vectors from the future, which the next call sets again",
    "flows/pipeline/earlier_runs.py:note_run": "opens the list of runs, of which each line is added by `append`",
    "flows/server/prefect_api.py:start_lean_server": "the log of Prefect's API",
    "flows/server/prefect_api.py:_take_empty_database": (
        "Prefect's empty database, which appears whole or not at all, and is made anew where it is missing"
    ),
    "query/evaluation/evaluate.py": "a file that the user asked for",
    "cli/": "a file that the user asked for",
}


def _deeds(room: str) -> Iterator[str]:
    """FILE:FUNCTION of each call that writes, moves or removes a file."""
    for path in sorted((ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_deed(node):
                around = [
                    function for function in functions if function.lineno <= node.lineno <= (function.end_lineno or 0)
                ]
                name = max(around, key=lambda function: function.lineno).name if around else ""
                yield f"{path.relative_to(ROOT)}:{name}"


def _is_deed(call: ast.Call) -> bool:
    owner, name = _called(call.func)
    if name in ("open", "TemporaryFile"):
        words = [
            argument.value
            for argument in [*call.args, *(word.value for word in call.keywords)]
            if isinstance(argument, ast.Constant)
        ]
        is_text = [word for word in words if isinstance(word, str) and set(word) <= set("rwaxbt+U")]
        return any(set(word) & set("wax+") for word in is_text)
    # `Path.replace` takes one argument, `str.replace` two, and `dataclasses.replace` keywords.
    is_replace = name == "replace" and (owner == "os" or (owner and len(call.args) == 1 and not call.keywords))
    return bool(
        name in _DEEDS
        or (owner, name) == ("", "create")
        or is_replace
        or (owner == "shutil" and name != "disk_usage")
        or (owner == "os" and name == "remove")
    )


def _called(function: ast.expr) -> tuple[str, str]:
    """What a function is called on, and its name."""
    if isinstance(function, ast.Attribute):
        return (function.value.id if isinstance(function.value, ast.Name) else "?"), function.attr
    return "", (function.id if isinstance(function, ast.Name) else "")


def test_nothing_is_written_moved_or_removed_past_the_durable_module() -> None:
    deeds = {deed for room in _ROOMS for deed in _deeds(room)}
    assert {deed for deed in deeds if not any(deed.startswith(allowed) for allowed in _ALLOWED)} == set()
    assert {allowed for allowed in _ALLOWED if not any(deed.startswith(allowed) for deed in deeds)} == set(), (
        "exceptions that nobody needs any more"
    )


def test_the_watch_sees_such_calls_and_no_others() -> None:
    """The test above proves nothing unless these are found."""
    deeds = [
        "p.write_text('x')",
        "open(p, 'w')",
        "p.open('ab')",
        "p.replace(q)",
        "os.replace(p, q)",
        "shutil.move(p, q)",
        "p.unlink()",
        "os.remove(p)",
    ]
    assert [deed for deed in deeds if not _is_deed(_call(deed))] == []
    others = [
        "s.replace('a', 'b')",
        "p.open('rb')",
        "p.open()",
        "replace(entry, kept='')",
        "durable.remove(p)",
        "move(p, q)",
    ]
    assert [other for other in others if _is_deed(_call(other))] == []


def _call(code: str) -> ast.Call:
    [statement] = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value
