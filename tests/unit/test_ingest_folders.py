"""Reading folders into resources, and packages into skills."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

import powerctx_core as powerctx
from powerctx_core import InvalidRequest, Item
from powerctx_core.cli.program import program
from powerctx_core.ingest import BadLine, Folders, Reader, document_id, find_sources
from powerctx_core.ingest.documents import front_matter, read_skill
from powerctx_core.ingest.sources import folder_id

SCOPE = "project:demo"
STORE = "sqlite:///t.db"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with no settings of the user."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("POWERCTX_STORE", "POWERCTX_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def write(root: str, files: dict[str, str]) -> Path:
    """Write files below a folder."""
    for name, text in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Path(root)


def ingest(family: str, *paths: str) -> Result:
    """Run ``powerctx ingest``."""
    arguments = ["ingest", *paths, "--scope", SCOPE, "--family", family, "--store", STORE]
    return CliRunner().invoke(program, arguments, prog_name="powerctx")


def current(family: str) -> dict[str, Item]:
    """Return what is stored and found."""
    with powerctx.open(STORE) as ctx:
        found = ctx.find("walrus", scope_id=SCOPE, families=(family,), limit=100)
        return {hit.address.artifact_id: ctx.get(hit.address).item for hit in found.hits}


def skills(*paths: str) -> list[Item | BadLine]:
    """Read skills."""
    listing = find_sources(paths, skills=True)
    reader = Reader(scope_id=SCOPE, family="skill", split=True)
    return [*listing.bad, *(entry for source in listing.sources for entry in reader.read(source))]


def folders(root: str) -> dict[str, Item]:
    """Read resources and return the items of their folders."""
    listing = find_sources([root])
    found = Folders(SCOPE, "resource", listing.folders)
    reader = Reader(scope_id=SCOPE, family="resource")
    for source in listing.sources:
        for entry in reader.read(source):
            if isinstance(entry, Item):
                found.add(source.artifact_id, entry)
    return {str(item.artifact_id): item for item in found.items()}


def test_folders_become_items() -> None:
    """A folder with documents somewhere below it is an item: what lies in it, a line each, with abstracts."""
    long = "Walrus one. " * 60
    write("h", {"api/a.md": f"# A\n\n{long}", "api/v1/b.txt": "Walrus b.", "top.md": "Walrus top.", "none/x.png": ""})

    assert "4 stored, 0 unchanged" not in ingest("resource", "h").stdout
    assert "0 stored, 5 unchanged, 0 bad in 1 scope\n" == ingest("resource", "h").stdout
    found = current("resource")

    assert {"api", "api/a.md", "api/v1", "api/v1/b.txt", "top.md"} == set(found)
    assert ["directory", "item"] == [found[name].kind for name in ("api", "api/a.md")]
    assert "a.md: Walrus one.\nv1/: 1 document: b.txt" == found["api"].text == found["api"].overview
    assert ("api", "2 documents: a.md, v1/") == (found["api"].title, found["api"].abstract)
    assert "Walrus one." == found["api/a.md"].abstract


def test_what_a_folder_says_of_itself() -> None:
    """README goes before index; its title and first sentence are the folder's, and it begins the overview."""
    write("h", {"a/index.md": "# No\n\nno", "a/README.md": "# The A\n\nAbout a walrus. More.", "a/c.txt": "c"})

    a = folders("h")["a"]

    assert ("The A", "About a walrus.") == (a.title, a.abstract)
    assert "# The A\n\nAbout a walrus. More." == a.overview
    assert ["README.md: About a walrus.", "c.txt: c", "index.md: no"] == a.text.split("\n")


def test_a_large_folder() -> None:
    """The list of a large folder ends with how many are missing."""
    write("h", {f"a/{number:04}.txt": "walrus " * 50 for number in range(300)})

    a = folders("h")["a"]

    assert len(a.text.encode()) <= 2000
    assert len(str(a.abstract).encode()) <= 447
    shown, last = a.text.split("\n")[:-1], a.text.split("\n")[-1]
    assert f"… and {300 - len(shown)} more" == last


def test_a_folder_that_is_empty_now() -> None:
    """A folder that lost its documents goes; one whose document cannot be read this time stays."""
    write("h", {"a/x.md": "walrus", "b/x.md": "walrus", "b/walrus.md": "walrus"})
    ingest("resource", "h")
    assert {"a/x.md", "b", "b/x.md"} <= set(current("resource"))

    for name in ("x.md", "walrus.md"):
        Path("h/b", name).write_bytes(b"\xff walrus")
    assert 1 == ingest("resource", "h").exit_code
    assert "b" in current("resource")
    for name in ("x.md", "walrus.md"):
        Path("h/b", name).unlink()
    ingest("resource", "h")
    assert "b" not in current("resource")


def test_a_file_named_alone_makes_no_folder() -> None:
    """Of a folder only one document is known of, the item that lists all of them stays as it is."""
    write("h", {"a/walrus.md": "walrus", "a/y.md": "walrus"})
    ingest("resource", "h")
    os.chdir("h")

    arguments = ["ingest", "a/y.md", "--scope", SCOPE, "--family", "resource", "--store", "sqlite:///../t.db"]
    result = CliRunner().invoke(program, arguments, prog_name="powerctx")

    os.chdir("..")
    assert "0 stored, 1 unchanged, 0 bad in 1 scope\n" == result.stdout
    assert "walrus.md: walrus\ny.md: walrus" == current("resource")["a"].text


def test_folders_in_packs() -> None:
    """A directory shows its overview where resources show abstracts, is excluded with all below it, and is a level."""
    write(
        "h",
        {"a/README.md": "# Walrus\n\n" + "All of it. " * 100 + "SECRET", "a/b.md": "# B\n\nA walrus. SECRET. " * 60},
    )
    ingest("resource", "h")
    with powerctx.open(STORE) as ctx:
        pack = ctx.search("walrus", scope_id=SCOPE, mode="context", max_tokens=4000)
        kinds = {entry.address.artifact_id: entry.detail for entry in pack.entries}
        below = ctx.find("walrus", scope_id=SCOPE, target_uri=f"powerctx://{SCOPE.replace(':', '%3A')}/resource/a")
        level = ctx.find("walrus", scope_id=SCOPE, level="directory")
        without = ctx.search(
            "walrus",
            scope_id=SCOPE,
            mode="context",
            exclude_uris=[f"powerctx://{SCOPE.replace(':', '%3A')}/resource/a"],
        )

    assert {"a": "overview", "a/README.md": "abstract", "a/b.md": "abstract"} == kinds
    assert {"a", "a/README.md", "a/b.md"} == {hit.address.artifact_id for hit in below.hits}
    assert ["a"] == [hit.address.artifact_id for hit in level.hits]
    assert () == tuple(without.entries)


def test_links_and_loops() -> None:
    """A link out of the folder is passed over, file or folder; one inside it adds nothing twice; loops end."""
    write("secret", {"key.md": "walrus secret", "sub/x.md": "walrus secret"})
    write("h", {"a/x.md": "walrus"})
    Path("h/out").symlink_to(Path("secret").resolve())
    Path("h/a/key.md").symlink_to(Path("secret/key.md").resolve())
    Path("h/a/up").symlink_to(Path("h").resolve())
    Path("h/again").symlink_to("a")

    listing = find_sources(["h"])

    assert ["a/x.md"] == [source.artifact_id for source in listing.sources]
    assert ({"link out of the folder": 2}, ()) == (dict(listing.skipped), listing.bad)
    assert {"a"} == set(folders("h"))
    result = ingest("resource", "h")
    assert "passed over: link out of the folder (2)" in result.stderr
    assert "secret" not in " ".join(item.text for item in current("resource").values())


def test_links_to_what_is_hidden() -> None:
    """What a walk passes over because it is hidden does not come in by a link."""
    write("h", {".git/config": "token", ".env": "token", "a/x.md": "walrus"})
    for name, target in (("config.md", ".git/config"), ("env.txt", ".env"), ("git", ".git")):
        Path("h", name).symlink_to(target)

    listing = find_sources(["h"])

    assert ["a/x.md"] == [source.artifact_id for source in listing.sources]
    assert {"link to what is hidden": 3} == dict(listing.skipped)


def test_a_linked_folder_that_is_named_is_walked() -> None:
    """The folder that is named may be a link itself."""
    write("real", {"a/x.md": "walrus"})
    Path("h").symlink_to("real")

    assert {"a"} == set(folders("h"))


def test_names_that_are_no_ids() -> None:
    """Names with control characters, and too long ones, keep lying below the folder that they are in."""
    deep = "/".join(["deep" * 10] * 6)
    write("h", {"a\x07b/x\ny.md": "walrus", f"{deep}/{'z' * 200}.md": "walrus", "ok/é漢🙂.md": "walrus"})

    assert 0 == ingest("resource", "h").exit_code
    found = current("resource")

    items = {name for name, item in found.items() if item.kind == "item"}
    directories = set(found) - items
    assert 3 == len(items)
    assert "ok/é漢🙂.md" in items
    assert all(any(name.startswith(f"{above}/") for above in directories) for name in items)
    assert all(name.isprintable() and len(name.encode()) <= 120 for name in found)
    assert "0 stored" in ingest("resource", "h").stdout


NAMES = st.text(st.sampled_from("ab é漢\x07\n🙂\udcff."), min_size=1, max_size=70)


@given(st.lists(NAMES, min_size=1, max_size=8), st.lists(NAMES, min_size=1, max_size=3))
def test_ids_below_folders(above: list[str], below: list[str]) -> None:
    """Whatever the names: what lies below a folder that has an id has an id below it."""
    folder = folder_id("/".join(above))

    if folder is not None:
        assert document_id("/".join([*above, *below])).startswith(f"{folder}/")
    name = document_id("/".join(above))
    assert len(name.encode()) <= 120


def test_different_paths_differ() -> None:
    """Names that only differ in what does not print, or behind the limit, get different ids."""
    names = ["a\x07/x", "a\x08/x", "a_/x", f"{'d/' * 80}x/y", f"{'d/' * 80}y/y", f"{'d/' * 80}y\x07/y"]

    assert len(names) == len({document_id(name) for name in names})


def test_a_skill_is_one_entry() -> None:
    """A folder with SKILL.md is one item, its other files are named in it and are no items."""
    write(
        "s",
        {
            "group/deploy/SKILL.md": "---\nname: deploy-it\ndescription: Deploys a walrus.\n---\n# Steps\n\nPush.\n",
            "group/deploy/ref/more.md": "walrus",
            "group/deploy/inner/SKILL.md": "---\nname: inner\n---\nwalrus",
            "group/deploy/.hidden": "walrus",
            "loose.md": "A walrus.",
        },
    )
    assert "2 stored, 0 unchanged, 0 bad in 1 scope\n" == ingest("skill", "s").stdout
    assert "0 stored, 2 unchanged, 0 bad in 1 scope\n" == ingest("skill", "s").stdout

    found = current("skill")

    assert {"group/deploy", "loose.md"} == set(found)
    deploy = found["group/deploy"]
    assert ("deploy-it", "Deploys a walrus.") == (deploy.title, deploy.abstract)
    assert "Deploys a walrus.\n\n# Steps\n\nPush." == deploy.text
    assert {"files": ["inner/SKILL.md", "ref/more.md"]} == {key: list(value) for key, value in deploy.meta.items()}


@pytest.mark.parametrize("named", [("s/deploy",), ("s/deploy/SKILL.md",), ("s/deploy", "s/deploy/SKILL.md"), (".",)])
def test_a_skill_named_alone(named: tuple[str, ...]) -> None:
    """A package named itself, by its folder or by its file, has the name of its folder as id."""
    write("s", {"deploy/SKILL.md": "Push the walrus.", "deploy/a.txt": "a"})
    if named == (".",):
        os.chdir("s/deploy")

    (item,) = skills(*named)

    assert isinstance(item, Item)
    assert ("deploy", "deploy", None) == (item.artifact_id, item.title, item.abstract)
    assert {"files": ["a.txt"]} == dict(item.meta)


def test_a_skill_with_many_files_and_hostile_ones() -> None:
    """Of many files 256 are named; links out of the package and names that do not print do no harm."""
    write("s", {f"p/{number:03}\x07.txt": "" for number in range(300)} | {"p/SKILL.md": "walrus", "key": "secret"})
    Path("s/p/000-link").symlink_to(Path("s/key").resolve())

    (item,) = skills("s")

    assert isinstance(item, Item)
    assert 256 == len(item.meta["files"])
    assert all(name.isprintable() and "link" not in name for name in item.meta["files"])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"---\nname: x\ndescription: y\nwalrus", "its front matter does not end; add a line ---"),
        (b"---\nname: \xff\n---\nwalrus", "is not UTF-8 (byte 10)"),
        (b"---\nname: x\0\n---\nwalrus", "binary"),
        (b"x" * ((1 << 20) + 9), "is longer than 1 MiB; cut it"),
    ],
)
def test_skills_that_are_refused(data: bytes, reason: str) -> None:
    """A SKILL.md that cannot be meant is reported in one sentence, and the other skills go in."""
    write("s", {"a/SKILL.md": "", "b/SKILL.md": "walrus"})
    Path("s/a/SKILL.md").write_bytes(data)

    bad, item = skills("s")

    assert isinstance(item, Item)
    assert isinstance(bad, BadLine)
    assert reason in bad.reason


def test_an_unreadable_skill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SKILL.md that may not be read is reported; what else its folder holds does not become entries instead."""
    write("s", {"a/SKILL.md": "walrus", "a/ref.md": "walrus", "b/SKILL.md": "walrus"})
    opened = Path.open

    def refuse(path: Path, *more: object, **options: object) -> object:
        if path == Path("s/a/SKILL.md"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *more, **options)

    monkeypatch.setattr(Path, "open", refuse)
    bad, item = skills("s")

    assert "cannot be read: Permission denied." in str(bad)
    assert isinstance(item, Item)
    assert "b" == item.artifact_id


def test_a_skill_file_that_is_a_link_out_of_the_folder() -> None:
    """It is not read, and its folder gives no entry at all."""
    write("s", {"a/ref.md": "walrus"})
    write("secret", {"key": "secret"})
    Path("s/a/SKILL.md").symlink_to(Path("secret/key").resolve())

    listing = find_sources(["s"], skills=True)

    assert () == listing.sources
    assert {"link out of the folder": 1} == dict(listing.skipped)


@pytest.mark.parametrize(
    ("matter", "fields"),
    [
        ("name: a\ndescription: b c", {"name": "a", "description": "b c"}),
        ("Name: 'it''s'\ndescription: \"say \\\"x: y\\\"\"", {"name": "it's", "description": 'say "x: y"'}),
        ("description: >-\n  one\n  two\n\n  three\nname: n", {"description": "one two three", "name": "n"}),
        ("description: |\n  one: two\n", {"description": "one: two"}),
        ("description: one\n  two # no\nname: n # yes", {"description": "one two", "name": "n"}),
        ("name: a\nname: b\n- x\n!!!\n: y", {"name": "a"}),
        ("name:\ndescription:   ", {"name": "", "description": ""}),
        ("name: 漢字🙂\nurl: https://x.example/#a", {"name": "漢字🙂", "url": "https://x.example/#a"}),
        ("name: 'open\nmetadata:\n  a: b", {"name": "'open", "metadata": "a: b"}),
    ],
)
def test_front_matter(matter: str, fields: dict[str, str]) -> None:
    """Plain, quoted and block values are read, what is no field is passed over."""
    assert (fields, "body") == front_matter(f"---\n{matter}\n---\nbody")


@given(st.text(st.sampled_from("ab:-#'\"\\|> \n\t漢🙂\x07"), max_size=300))
def test_any_front_matter(text: str) -> None:
    """Whatever stands there, a skill is read or refused with a sentence, and no line of it is too long."""
    front_matter(text)
    for skill in (text, f"---\nname: {text}", f"---\nname: {text}\n---\n{text}"):
        with suppress(InvalidRequest):
            title = read_skill(skill).title or ""
            assert len(title.encode()) <= 256
            assert "\n" not in title


def test_counts_as_json() -> None:
    """What was passed over is counted in JSON, too, and folders are among what is stored."""
    write("h", {"a/x.md": "walrus", "a/y.png": ""})
    arguments = ["ingest", "h", "--scope", SCOPE, "--family", "resource", "--store", STORE, "--json"]

    found = json.loads(CliRunner().invoke(program, arguments, prog_name="powerctx").stdout)

    assert (2, {".png": 1}) == (found["stored"], found["passed_over"])


def test_split_resources_lie_in_folders_once() -> None:
    """Parts of a document are below its folder, which lists the document, not its parts."""
    write("h", {"a/x.md": "# X\n\nA walrus.\n\n# Y\n\nA walrus, too.\n"})
    arguments = ["ingest", "h", "--scope", SCOPE, "--family", "resource", "--store", STORE, "--split"]

    assert 0 == CliRunner().invoke(program, arguments, prog_name="powerctx").exit_code

    found = current("resource")
    assert {"a", "a/x.md#1", "a/x.md#2"} == set(found)
    assert "x.md: A walrus." == found["a"].text
