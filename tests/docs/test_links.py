"""Links lead somewhere, pages are on the map, and commands that are shown exist with their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
import pytest

from powerctx_core.cli.program import program

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$\n?", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_SHELL = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPERATORS = {"&&", "||", ";", "|", ">", ">>", "<"}

pytestmark = pytest.mark.docs


def _pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("plugins/*/*.md"), *ROOT.glob("contrib/*/*.md"), *DOCS.rglob("*.md")]
    return sorted(page for page in found if not any(part.startswith(".") for part in page.relative_to(ROOT).parts))


def _anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = next(number for number in range(1000) if (f"{slug}-{number}" if number else slug) not in found)
        found.add(f"{slug}-{number}" if number else slug)
    return found


def _links() -> Iterator[Any]:
    for page in _pages():
        prose = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
        for target in dict.fromkeys(first or second for first, second in _LINK.findall(prose)):
            if not re.match(r"[a-z][a-z0-9+.-]*:", target):
                yield pytest.param(page, target, id=f"{page.relative_to(ROOT)}:{target}")


def _commands() -> Iterator[Any]:
    """Give every command line that runs ``powerctx``, as its words behind the name."""
    for page in _pages():
        for block in _SHELL.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                for words in _split(line):
                    yield pytest.param(words, id=f"{page.relative_to(ROOT)}:{' '.join(words)}")


def _split(line: str) -> Iterator[list[str]]:
    shell = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    shell.whitespace_split = True
    command: list[str] = []
    for word in [*shell, ";"]:
        if word not in _OPERATORS:
            command.append(word)
            continue
        if "powerctx" in command:
            before = command[: command.index("powerctx")]
            if not before or before[:2] == ["uv", "run"] or all(re.match(r"[A-Z_]+=", each) for each in before):
                yield command[command.index("powerctx") + 1 :]
        command = []


def _check(words: list[str]) -> None:
    """Parse a command line without running it.

    Raises:
        click.ClickException: no such command, no such option, something missing or too much.
    """
    with click.Context(program, info_name="powerctx", **program.context_settings) as context:
        _check_command(program, context, words)


def _check_command(command: click.Command, context: click.Context, words: list[str]) -> None:
    while True:
        given, rest, _ = command.make_parser(context).parse_args(list(words))
        _check_parameters(command, context, given)
        if not isinstance(command, click.Group):
            if rest:
                raise click.UsageError(f"{rest} is too much for {context.command_path}", context)
            return
        if not rest:
            return
        _, found, words = command.resolve_command(context, rest)
        assert found is not None
        context = click.Context(found, parent=context, info_name=found.name)
        command = found


def _check_parameters(command: click.Command, context: click.Context, given: dict[str, Any]) -> None:
    if "help" in given:
        return
    for parameter in command.get_params(context):
        value = given.get(parameter.name or "")
        values = [each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, str)]
        if parameter.required and not values:
            raise click.MissingParameter(ctx=context, param=parameter)
        if isinstance(parameter.type, click.Choice | click.IntRange | click.FloatRange):
            for each in values:
                parameter.type.convert(each, parameter, context)


@pytest.mark.parametrize(("page", "target"), list(_links()))
def test_links_lead_somewhere(page: Path, target: str) -> None:
    """A relative link names a file of the repository, and its anchor a heading there."""
    name, _, anchor = unquote(target).partition("#")
    file = (page.parent / name).resolve() if name else page

    assert file.is_relative_to(ROOT)
    assert file.exists()
    assert not anchor or anchor in _anchors(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("words", list(_commands()))
def test_commands_that_are_shown_exist(words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Command, options and arguments of every line in a shell block are those of the program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POWERCTX_PLUGINS", raising=False)
    try:
        _check(words)
    except click.ClickException as error:
        pytest.fail(f"powerctx {' '.join(words)}: {error.format_message()}", pytrace=False)


def test_every_page_is_on_the_map() -> None:
    """``docs/README.md`` links every page of its folder and of ``plugins/``."""
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = {(DOCS / (first or second).partition("#")[0]).resolve() for first, second in _LINK.findall(text)}

    assert [] == [
        str(page.relative_to(DOCS))
        for page in (*DOCS.glob("*.md"), *DOCS.glob("plugins/*.md"))
        if page.resolve() not in linked and page != DOCS / "README.md"
    ]
