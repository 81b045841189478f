"""The pages say what the code says: signatures, fields, methods, parts, and examples that run."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

import powerctx_core
from powerctx_core import hookspecs, ports
from powerctx_core.host import Host

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "docs" / "plugins"
PAGES = {hook: PLUGINS / f"{hook.removeprefix('powerctx_').replace('_', '-')}.md" for hook in hookspecs.HOOKS}
PORTS: Mapping[str, tuple[str, ...]] = {
    "powerctx_families": ("Family", "SearchingFamily"),
    "powerctx_admissions": ("AdmissionRule",),
    "powerctx_candidate_providers": ("Provider",),
    "powerctx_renderers": ("Renderer",),
    "powerctx_stores": (
        *("Store", "Catalogue", "Snapshot", "JoinedListings", "VectorIndex"),
        *("Usage", "CountingStore", "Ledger", "Sessions", "SessionStore"),
    ),
    "powerctx_embedders": ("Embedder",),
    "powerctx_token_estimators": ("TokenEstimator",),
    "powerctx_sinks": ("Sink",),
    "powerctx_commands": (),
}
"""Hook -> the ports that its page describes."""
OURS = ("core", "sqlite", "local-embed", "eval")
"""Entry points of this repository, whose parts the pages name."""

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_FIELDS = re.compile(r"^\| `(?P<name>\w+)` field \|.*\n\|[-| ]+\|\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)

pytestmark = pytest.mark.docs

for_each_hook = pytest.mark.parametrize("hook", hookspecs.HOOKS)


@attrs.frozen
class Example:
    """A program on a page, the modules that the page shows for it, and what it says that it prints."""

    page: Path
    files: Mapping[str, str]
    code: str
    output: str | None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _pages() -> list[Path]:
    return sorted([*PLUGINS.glob("*.md"), *PLUGINS.parent.glob("*.md")])


def _examples() -> Iterator[Any]:
    """Give every block ``python run``, with the named files before it and the block ``text`` after it."""
    for page in _pages():
        files: dict[str, str] = {}
        blocks = [(match["info"].split(), match["body"]) for match in _BLOCK.finditer(_text(page))]
        for number, (info, body) in enumerate(blocks):
            if info[:1] not in (["python"], ["toml"]) or len(info) < 2:
                continue
            if info[1] != "run":
                files[info[1]] = body
                continue
            following = blocks[number + 1] if number + 1 < len(blocks) else ([], "")
            output = following[1] if following[0] == ["text"] else None
            yield pytest.param(Example(page, dict(files), body, output), id=f"{page.stem}-{number}")


def _class(port: str) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(getattr(ports, port)))
    (found,) = (each for each in tree.body if isinstance(each, ast.ClassDef))
    return found


def _shown_class(page: Path, port: str) -> ast.ClassDef | None:
    for match in _BLOCK.finditer(_text(page)):
        if match["info"] == "python" and re.search(rf"class {port}\((?:\w+, )*Protocol\)", match["body"]):
            return next(
                each for each in ast.parse(match["body"]).body if isinstance(each, ast.ClassDef) and each.name == port
            )
    return None


def _methods(port: ast.ClassDef) -> list[str]:
    """Return the signatures of a port's methods, and what its properties give."""
    found = []
    for each in port.body:
        if isinstance(each, ast.FunctionDef):
            decorators = "".join(f"@{ast.unparse(decorator)} " for decorator in each.decorator_list)
            returned = "" if each.returns is None else f" -> {ast.unparse(each.returns)}"
            found.append(f"{decorators}{each.name}({ast.unparse(each.args)}){returned}")
    return found


def _default(value: Any) -> str:
    if value is attrs.NOTHING:
        return "required"
    if isinstance(value, attrs.Factory):
        if value.takes_self:
            return "of another field"
        value = value.factory()
    if isinstance(value, Mapping):
        return repr(dict(value))
    if inspect.isclass(value):
        return value.__name__
    if attrs.has(type(value)) and value == type(value)():
        return f"{type(value).__name__}()"
    return "a function" if inspect.isfunction(value) else repr(value)


def _fields(cls: type) -> list[tuple[str, ...]]:
    # As written: the types on the fields are replaced by the objects when values of the class are converted.
    written = {key: text for base in reversed(cls.__mro__) for key, text in inspect.get_annotations(base).items()}
    return [(field.name, str(written[field.name]), _default(field.default)) for field in attrs.fields(cls)]


def _shown_fields(rows: str) -> list[tuple[str, ...]]:
    found = []
    for row in rows.splitlines():
        cells = [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        found.append(tuple(cells[:3]))
    return found


def _tables() -> list[Any]:
    return [
        pytest.param(match["name"], match["rows"], id=f"{page.stem}-{match['name']}")
        for page in _pages()
        for match in _FIELDS.finditer(_text(page))
    ]


@for_each_hook
def test_every_hook_has_a_page_that_begins_with_its_signature(hook: str) -> None:
    """The first heading of the page is the hook as it is called."""
    signature = str(inspect.signature(getattr(hookspecs, hook))).replace("'", "")

    assert f"# `{hook}{signature}`" == _text(PAGES[hook]).partition("\n")[0]


@for_each_hook
def test_every_hook_is_in_the_table_of_hooks(hook: str) -> None:
    """The overview links the hook's page beside the name of its record."""
    row = f"| [`{hook}`]({PAGES[hook].name}) | `{hookspecs.HOOKS[hook].__name__}` |"

    assert row in _text(PLUGINS / "README.md")


@for_each_hook
def test_every_page_shows_the_record(hook: str) -> None:
    """The page has a table of the fields of the record that its hook yields."""
    tables = [match["name"] for match in _FIELDS.finditer(_text(PAGES[hook]))]

    assert hookspecs.HOOKS[hook].__name__ in tables


@pytest.mark.parametrize(("name", "rows"), _tables())
def test_tables_of_fields_are_complete(name: str, rows: str) -> None:
    """A table of fields has every field of the class, in order, with its type and default, and says what it means."""
    cls = getattr(powerctx_core, name, None) or getattr(ports, name)

    assert _fields(cls) == _shown_fields(rows)
    assert all(re.split(r"(?<!\\)\|", row)[4].strip() for row in rows.splitlines())


@pytest.mark.parametrize(("hook", "port"), [(hook, port) for hook, found in PORTS.items() for port in found])
def test_every_page_shows_the_methods_of_its_ports(hook: str, port: str) -> None:
    """The page shows each port of its parts as a class, with the exact signature of every method."""
    shown = _shown_class(PAGES[hook], port)

    assert shown is not None, f"{PAGES[hook].name} has no block with class {port}(Protocol)"
    assert _methods(_class(port)) == _methods(shown)


@for_each_hook
def test_every_page_names_the_parts_of_today(hook: str) -> None:
    """The section "Offered today" names the parts of this repository's packages, and no others."""
    with Host.compose(allow=OURS) as host:
        offered = {name for status in host.report() for name in status.hooks.get(hook, ())}
    section = re.search(r"^## Offered today\n(.*?)(?=^## |\Z)", _text(PAGES[hook]), re.MULTILINE | re.DOTALL)

    assert section is not None
    assert offered == set(re.findall(r"^\| `([^`]+)` \|", section[1], re.MULTILINE))


@for_each_hook
def test_every_page_has_an_example(hook: str) -> None:
    """At least one program on the page shows what it prints, and the hook stands in one of its modules."""
    found = [param.values[0] for param in _examples() if param.values[0].page == PAGES[hook]]

    assert any(example.output and any(hook in code for code in example.files.values()) for example in found)


def test_the_complete_plugin_is_found_listed_and_checked(tmp_path: Path) -> None:
    """The two files of the overview, installed, give the row and the line that it shows."""
    text = _text(PLUGINS / "README.md")
    files = {match["info"].split()[1]: match["body"] for match in _BLOCK.finditer(text) if " " in match["info"]}
    project = tomllib.loads(files["pyproject.toml"])
    name, version = project["project"]["name"], project["project"]["version"]
    ((entry, module),) = project["project"]["entry-points"][hookspecs.GROUP].items()
    (tmp_path / f"{module}.py").write_text(files[f"{module}.py"], encoding="utf-8")
    info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{hookspecs.GROUP}]\n{entry} = {module}\n", encoding="utf-8")

    listed = _run(tmp_path, "-m", "powerctx_core.cli", "plugins", COLUMNS="200")
    checked = _run(tmp_path, "-m", "powerctx_core.cli", "check", entry)

    row = next(line for line in text.splitlines() if line.startswith(f"{entry} ") and name in line and "ok" in line)
    assert row.split() in [line.split() for line in listed.stdout.splitlines()]
    assert checked.stdout.strip()
    assert f"\n{checked.stdout}" in text


def _run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python in *folder*, with the modules there and without the caller's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POWERCTX_")}
    path = os.pathsep.join(filter(None, [str(folder), kept.get("PYTHONPATH")]))
    own = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "PYTHONPATH": path, "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={**kept, **own, **environ},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("example", list(_examples()))
def test_examples_run_and_print_what_is_shown(example: Example, tmp_path: Path) -> None:
    """A program, started beside the modules that its page shows, ends well and prints what stands below it."""
    for name, code in example.files.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "example.py").write_text(example.code, encoding="utf-8")
    done = _run(tmp_path, "example.py")

    assert done.returncode == 0, done.stderr
    assert example.output is None or example.output == done.stdout


@pytest.mark.parametrize("page", _pages(), ids=lambda page: page.stem)
def test_every_block_of_python_is_python(page: Path) -> None:
    """What is not run is valid syntax at least."""
    for match in _BLOCK.finditer(_text(page)):
        if match["info"].split()[:1] == ["python"]:
            ast.parse(match["body"])
