"""Settings: precedence, origins, strictness, references, masking."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import platformdirs
import pytest

from powerctx_core import ConfigError
from powerctx_core.config import (
    Effective,
    RecallSettings,
    Settings,
    default_store_url,
    load,
    part_settings,
    show,
    structure,
)
from powerctx_core.secrecy import secrets

Read = Callable[..., Effective]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Load settings of an empty machine: a file text, environment and flags, as given."""

    def read_them(
        text: str | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
    ) -> Effective:
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        if text is not None:
            (work / "powerctx.toml").write_text(text, encoding="utf-8")
        return load(flags or {}, environ or {}, work, tmp_path / "user")

    return read_them


def origin(effective: Effective, name: str) -> tuple[str, str]:
    """Return value and origin of one row of ``config show``."""
    ((_, value, where),) = [row for row in show(effective) if row[0] == name]
    return value, where


def test_defaults(read):
    """Without any setting the values are the defaults and say so."""
    effective = read()

    assert Settings() == effective.settings
    assert effective.file is None
    assert {"default"} == {where for _, _, where in show(effective)}
    assert [
        "store",
        "state",
        "plugins",
        "embedder",
        "sinks",
        "tokens.estimator",
        "recall.families",
        "recall.policy",
        "recall.gate",
        "recall.gate_files",
        "recall.item_bytes",
        "recall.deadline_ms",
        "recall.on_family_error",
        "assembly.max_entries",
        "assembly.sections.memory",
        "assembly.sections.experience",
        "trim.relevance",
        "trim.use",
        "trim.confidence",
        "trim.layer",
        "trim.recency",
        "trim.half_life_days",
        "trim.redundancy",
        "retrieval.default_search_type",
        "retrieval.embedding_timeout_s",
        "retrieval.write_embedding_timeout_s",
        "retrieval.ledger_timeout_s",
    ] == [name for name, _, _ in show(effective)]


def test_precedence_and_origin(read, tmp_path):
    """A flag beats the environment, which beats the file, which beats the default; each value knows its origin."""
    text = "store = 'file://a'\nsinks = ['file']\n[recall]\nitem_bytes = 100\npolicy = 'file'\n"
    environ = {"POWERCTX_STORE": "env://a", "POWERCTX_RECALL__POLICY": "env"}
    flags = {"store": "flag://a", "recall.item_bytes": None}

    effective = read(text, environ, flags)

    file = str(tmp_path / "work" / "powerctx.toml")
    assert ('"flag://a"', "flag") == origin(effective, "store")
    assert ('"env"', "env POWERCTX_RECALL__POLICY") == origin(effective, "recall.policy")
    assert ("100", file) == origin(effective, "recall.item_bytes")
    assert ('["file"]', file) == origin(effective, "sinks")
    assert ('"o200k"', "default") == origin(effective, "tokens.estimator")
    assert ("flag://a", "env", 100) == (
        effective.settings.store,
        effective.settings.recall.policy,
        effective.settings.recall.item_bytes,
    )


def test_file_is_searched_upward(tmp_path):
    """The nearest ``powerctx.toml`` above the working directory is the one that counts."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    for folder, name in ((tmp_path, "far"), (tmp_path / "a", "near")):
        (folder / "powerctx.toml").write_text(f"[recall]\npolicy = '{name}'")

    assert "near" == load({}, {}, deep, tmp_path).settings.recall.policy


def test_user_file(tmp_path, monkeypatch):
    """Without a file above, the user's own is read."""
    monkeypatch.setattr("powerctx_core.config.FILE", "powerctx-of-this-test.toml")
    (tmp_path / "work").mkdir()
    (tmp_path / "user" / "powerctx").mkdir(parents=True)
    file = tmp_path / "user" / "powerctx" / "powerctx-of-this-test.toml"
    file.write_text("[recall]\npolicy = 'mine'")

    effective = load({}, {}, tmp_path / "work", tmp_path / "user")

    assert (file, "mine") == (effective.file, effective.settings.recall.policy)


@pytest.mark.parametrize(
    ("value", "plugins"),
    [("", ()), ("a", ("a",)), (" a , b ,", ("a", "b")), ('["a", "b"]', ("a", "b")), (None, None)],
)
def test_plugins_from_the_environment(read, value, plugins):
    """Unset is all plugins, empty is none, else a list of names."""
    assert plugins == read(environ={} if value is None else {"POWERCTX_PLUGINS": value}).settings.plugins


def test_empty_store_variable_is_unset(read):
    """An empty ``POWERCTX_STORE`` leaves the store to file and default."""
    assert "file://a" == read("store = 'file://a'", {"POWERCTX_STORE": ""}).settings.store


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[recall]\npolcy = 'x'",
            "$.recall.polcy in FILE: is unknown; did you mean 'policy'? allowed: families, policy",
        ),
        ("[recal]\npolicy = 'x'", "$.recal in FILE: is unknown; did you mean 'recall'? allowed: store, state, plugins"),
        (
            "origins = {}",
            "$.origins in FILE: is unknown; allowed: store, state, plugins, embedder, sinks, tokens, recall, assembly,",
        ),
        ("[recall]\nitem_bytes = 1.9", "$.recall.item_bytes in FILE: must be a whole number, not 1.9."),
        ("[recall]\nitem_bytes = '200'", "$.recall.item_bytes in FILE: must be a whole number, not '200'."),
        ("[recall]\nitem_bytes = true", "$.recall.item_bytes in FILE: must be a whole number, not True."),
        ("[recall]\nitem_bytes = 3", "$.recall.item_bytes in FILE: must be from 64 to 4096, not 3."),
        ("[recall]\nfamilies = []", "$.recall.families in FILE: is empty; name at least one family"),
        ("[recall]\nfamilies = ['a', 'b', 'a']", "$.recall.families in FILE: names 'a' twice."),
        ("[retrieval]\nledger_timeout_s = 0", "$.retrieval.ledger_timeout_s in FILE: must be more than 0"),
        ("[retrieval]\nembedding_timeout_s = 0", "$.retrieval.embedding_timeout_s in FILE: must be more than 0"),
        ("store = ''", "$.store in FILE: is empty; leave it out instead."),
        ("[recall]\nfamilies = 'memory'", "$.recall.families in FILE: must be a list, not 'memory'."),
        ("[recall]\nfamilies = ['a', 3]", "$.recall.families[1] in FILE: must be a string, not 3."),
        ("recall = 'x'", "$.recall in FILE: must be a mapping, not 'x'."),
        ("store = 3", "$.store in FILE: must be a string, not 3."),
        ("parts = ['x']", "$.parts in FILE: must be a mapping, not ['x']."),
        ("[parts]\nx = 3", "$.parts.x in FILE: must be a mapping, not 3."),
    ],
)
def test_bad_values(read, tmp_path, text, line):
    """A bad value is one line with path, file, what is wrong and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(
        "Bad setting @ " + line.replace("FILE", str(tmp_path / "work" / "powerctx.toml"))
    )


def test_every_bad_value_has_its_own_origin(read, tmp_path):
    """Several bad values give several lines, each with the place that the value came from."""
    environ = {"POWERCTX_RECALL__ITEM_BYTES": "many"}

    with pytest.raises(ConfigError) as caught:
        read("sinks = [1]\n[recall]\nfamilies = 3", environ, {"recall.policy": 5})

    file = tmp_path / "work" / "powerctx.toml"
    assert [
        f"Bad setting @ $.sinks[0] in {file}: must be a string, not 1.",
        f"Bad setting @ $.recall.families in {file}: must be a list, not 3.",
        "Bad setting @ $.recall.policy in flag: must be a string, not 5.",
        "Bad setting @ $.recall.item_bytes in env POWERCTX_RECALL__ITEM_BYTES: must be a whole number, not 'many'.",
    ] == str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("POWERCTX_STROE", "did you mean POWERCTX_STORE?"),
        ("POWERCTX_PLUGIN", "did you mean POWERCTX_PLUGINS?"),
        ("POWERCTX_RECALL", "a setting of this section is POWERCTX_RECALL__<NAME>."),
        ("POWERCTX_STORE__X", "nothing lies below store, which is POWERCTX_STORE."),
        ("POWERCTX_PLUGINS__", "nothing lies below plugins, which is POWERCTX_PLUGINS."),
        ("POWERCTX_RECALL__POLCY", "did you mean 'policy'?"),
        ("POWERCTX_RECAL__POLICY", "did you mean 'recall'?"),
    ],
)
def test_misspelt_variable(read, variable, says):
    """A variable that is nearly a setting is an error that names the setting."""
    with pytest.raises(ConfigError) as caught:
        read(environ={variable: "x"})
    assert variable in str(caught.value)
    assert says in str(caught.value)


def test_foreign_variable(read):
    """A variable that is no setting, nor like one, belongs to somebody else."""
    assert Settings() == read(environ={"POWERCTX_TRACE_DIRECTORY": "x", "OTHER": "y"}).settings


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[recall]\npolicy = ", "is not valid TOML: Invalid value (at line 2, the last); correct that line."),
        (b"store = 'a'\nstore = 'b'", "is not valid TOML: Cannot overwrite a value (at line 2, the last); correct"),
        (b"store = 'a'\n# \xff", "is not UTF-8 text (line 2); save it as UTF-8."),
    ],
)
def test_bad_file(tmp_path, content, says):
    """A file that cannot be parsed is named with the line."""
    file = tmp_path / "powerctx.toml"
    file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load({}, {}, tmp_path, tmp_path)
    assert f"{file} {says}" in str(caught.value)


def test_byte_order_mark(tmp_path):
    """A mark at the start of the file, or of one that a value refers to, is no part of it."""
    (tmp_path / "key.txt").write_bytes(b"\xef\xbb\xbfhunter2\r\n")
    (tmp_path / "powerctx.toml").write_bytes(b"\xef\xbb\xbfembedder = '$file:key.txt'")

    assert "hunter2" == load({}, {}, tmp_path, tmp_path).settings.embedder


def test_folder_of_that_name_is_no_file(tmp_path):
    """A folder named ``powerctx.toml`` is passed over."""
    (tmp_path / "powerctx.toml").mkdir()

    assert load({}, {}, tmp_path, tmp_path).file is None


def test_empty_tables(read):
    """An empty table says nothing, takes nothing away and has no row; an unknown one is still an error."""
    effective = read("[recall]\npolicy = 'p'\n[tokens]\n[parts.x]\n", flags={"recall": {}})

    assert "p" == effective.settings.recall.policy
    assert [name for name, _, _ in show(read())] == [name for name, _, _ in show(effective)]
    with pytest.raises(ConfigError, match=r"\$\.tokns in"):
        read("[tokns]")


def test_nested_flags():
    """Settings given in a program may be nested tables or dotted names; lists and tuples are equal."""
    nested = structure({"recall": {"policy": "p", "families": ("a", "b")}, "parts": {"x": {"y": 1}}})
    dotted = structure({"recall.policy": "p", "recall.families": ["a", "b"], "parts.x.y": 1})

    assert RecallSettings(policy="p", families=("a", "b")) == nested.recall == dotted.recall
    assert {"x": {"y": 1}} == nested.parts == dotted.parts
    with pytest.raises(ConfigError, match=r"\$\.polcy in argument: is unknown"):
        structure({"polcy": "p"})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "settings must be a mapping such as {'store': 'memory://'}, not list."),
        ("memory://", "settings must be a mapping such as {'store': 'memory://'}, not str."),
        (1, "not int."),
        ({1: 2}, "settings has the key 1; keys must be strings."),
        ({"parts": {"x": {None: 2}}}, "settings.parts.x has the key None; keys must be strings."),
    ],
)
def test_settings_that_are_no_mapping(values, says):
    """Settings given in a program are a mapping with strings for keys, at every depth."""
    with pytest.raises(ConfigError) as caught:
        structure(values)
    assert says in str(caught.value)


# --- settings of parts


class Level(enum.Enum):
    """How much."""

    LOW = "low"
    HIGH = "high"


@attrs.frozen
class Inner:
    """A table inside a table."""

    size: int = 1


@attrs.frozen
class Everything:
    """One field of each supported type."""

    text: str = ""
    flag: bool = False
    count: int = 0
    share: float = 0.0
    maybe: int | None = None
    either: int | str = 0
    names: tuple[str, ...] = ()
    numbers: list[int] = attrs.field(factory=list)
    unique: frozenset[str] = frozenset()
    extra: dict[str, int] = attrs.field(factory=dict)
    kind: Literal["a", "b"] = "a"
    level: Level = Level.LOW
    path: Path | None = None
    inner: Inner = Inner()
    api_key: str = ""
    anything: Any = None


def part(read: Read, text: str | None = None, environ: Mapping[str, str] | None = None) -> Everything:
    """Return the settings of the part ``my-part``."""
    return part_settings(Everything, read(text, environ).settings, "my-part")


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("text = '5'", "text", "5"),
        ("flag = true", "flag", True),
        ("count = 5", "count", 5),
        ("share = 1", "share", 1.0),
        ("maybe = 3", "maybe", 3),
        ("either = 'x'", "either", "x"),
        ("either = 3", "either", 3),
        ("names = ['a']", "names", ("a",)),
        ("numbers = [1, 2]", "numbers", [1, 2]),
        ("unique = ['a', 'a']", "unique", frozenset("a")),
        ("extra = {a = 1}", "extra", {"a": 1}),
        ("kind = 'b'", "kind", "b"),
        ("level = 'high'", "level", Level.HIGH),
        ("path = '/x'", "path", Path("/x")),
        ("inner.size = 4", "inner", Inner(size=4)),
    ],
)
def test_types_of_part_settings(read, line, field, value):
    """Every supported type is read from a file."""
    got = getattr(part(read, f"[parts.my-part]\n{line}"), field)

    assert (type(value), value) == (type(got), got)


@pytest.mark.parametrize(
    ("name", "raw", "field", "value"),
    [
        ("TEXT", "5", "text", "5"),
        ("FLAG", "true", "flag", True),
        ("COUNT", "5", "count", 5),
        ("SHARE", "2", "share", 2.0),
        ("MAYBE", "3", "maybe", 3),
        ("EITHER", "3", "either", 3),
        ("EITHER", "three", "either", "three"),
        ("NAMES", "a,b", "names", ("a", "b")),
        ("NUMBERS", "1, 2", "numbers", [1, 2]),
        ("EXTRA", "{a = 1}", "extra", {"a": 1}),
        ("KIND", "b", "kind", "b"),
        ("LEVEL", "high", "level", Level.HIGH),
        ("PATH", "/x", "path", Path("/x")),
        ("INNER__SIZE", "4", "inner", Inner(size=4)),
        ("INNER", "{size = 4}", "inner", Inner(size=4)),
        ("ANYTHING", "4", "anything", "4"),
    ],
)
def test_types_from_the_environment(read, name, raw, field, value):
    """A variable is taken as it is for text, and read as TOML for anything else; ``_`` in a part's name means ``-``."""
    got = getattr(part(read, environ={f"POWERCTX_PARTS__MY_PART__{name}": raw}), field)

    assert (type(value), value) == (type(got), got)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("text = 5", ".text in FILE: must be a string, not 5."),
        ("flag = 'false'", ".flag in FILE: must be true or false, not 'false'."),
        ("flag = 1", ".flag in FILE: must be true or false, not 1."),
        ("count = 1.0", ".count in FILE: must be a whole number, not 1.0."),
        ("share = nan", ".share in FILE: must be a number, not nan."),
        ("share = '1'", ".share in FILE: must be a number, not '1'."),
        ("maybe = 'None'", ".maybe in FILE: must be a whole number, not 'None'."),
        ("either = 1.5", ".either in FILE: must be a string, not 1.5."),
        ("names = 'abc'", ".names in FILE: must be a list, not 'abc'."),
        ("names = {a = 1}", ".names in FILE: must be a list, not {'a': 1}."),
        ("numbers = [1, 'x']", ".numbers[1] in FILE: must be a whole number, not 'x'."),
        ("extra.a = 'x'", ".extra.a in FILE: must be a whole number, not 'x'."),
        ("kind = 'c'", ".kind in FILE: must be one of a, b, not 'c'."),
        ("level = 3", ".level in FILE: must be one of low, high, not 3."),
        ("inner.sise = 3", ".inner.sise in FILE: is unknown; did you mean 'size'? allowed: size."),
        ("path = 3", ".path in FILE: must be a path, not 3."),
    ],
)
def test_part_settings_are_strict(read, tmp_path, line, says):
    """Nothing is guessed: each wrong type is an error with path and file."""
    with pytest.raises(ConfigError) as caught:
        part(read, f"[parts.my-part]\n{line}")
    assert f"Bad setting @ $.parts.my-part{says}".replace("FILE", str(tmp_path / "work" / "powerctx.toml")) == str(
        caught.value
    )


@pytest.mark.parametrize(("name", "raw"), [("FLAG", "yes"), ("COUNT", "5\nother = 1"), ("COUNT", ""), ("MAYBE", "x")])
def test_variable_of_the_wrong_type(read, name, raw):
    """A variable that does not read as the wanted type is an error that names it."""
    with pytest.raises(ConfigError, match=f"in env POWERCTX_PARTS__MY_PART__{name}: must be "):
        part(read, environ={f"POWERCTX_PARTS__MY_PART__{name}": raw})


def test_no_table_is_all_defaults(read):
    """A part without a table gets its defaults."""
    assert Everything() == part(read)


# --- references and secrets


def test_references(read, tmp_path):
    """``$env:`` and ``$file:`` values are replaced; a relative path starts at the file that names it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "key.txt").write_text("from-file\n")
    text = "store = '$env:MY_STORE'\n[parts.my-part]\napi_key = '$file:key.txt'\n"

    effective = read(text, {"MY_STORE": "db://me:hunter2@host"})

    assert "db://me:hunter2@host" == effective.settings.store
    assert "from-file" == part_settings(Everything, effective.settings, "my-part").api_key
    assert '"$env:MY_STORE"' == origin(effective, "store")[0]
    assert '"$file:key.txt"' == origin(effective, "parts.my-part.api_key")[0]


def test_missing_reference_of_an_unused_part(read):
    """A reference that leads nowhere is an error only for what needs it."""
    text = "[parts.my-part]\napi_key = '$env:NOT_SET'\ntext = '$file:/not/there'\n"

    settings = read(text).settings

    assert Everything() == part_settings(Everything, settings, "other")
    with pytest.raises(ConfigError) as caught:
        part_settings(Everything, settings, "my-part")
    assert "'$env:NOT_SET' cannot be resolved: the variable NOT_SET is not set" in str(caught.value)
    assert "'$file:/not/there' cannot be resolved: /not/there cannot be read (No such file or directory)" in str(
        caught.value
    )


def test_missing_reference_of_any_type(read):
    """A reference that leads nowhere is never handed over as text, whatever type is wanted."""
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        part(read, "[parts.my-part]\nanything = '$env:NOT_SET'")


def test_missing_reference_of_the_store(read):
    """A store by reference is needed at once."""
    with pytest.raises(ConfigError, match=r"\$\.store in .*the variable NOT_SET is not set"):
        read("store = '$env:NOT_SET'")


@attrs.frozen
class Careless:
    """A part whose validator quotes the secret."""

    api_key: str = attrs.field(default="", validator=attrs.validators.matches_re("sk-.*"))
    secret_names: tuple[str, ...] = ()
    max_tokens: int = 0


@pytest.mark.parametrize(
    "environ",
    [{}, {"POWERCTX_PARTS__CARELESS__API_KEY": "hunter2"}],
    ids=["file", "environment"],
)
def test_secrets_stay_secret(read, environ):
    """A secret shows neither in ``config show``, nor in any repr, nor in an error, whoever words it."""
    text = "" if environ else "[parts.careless]\napi_key = 'hunter2'\nsecret_names = ['hunter2']\nmax_tokens = 7\n"

    effective = read(text, environ)

    assert "hunter2" not in str(show(effective))
    assert "hunter2" not in repr(effective) + repr(effective.settings) + repr(dict(effective.settings.parts))
    with pytest.raises(ConfigError) as caught:
        part_settings(Careless, effective.settings, "careless")
    assert "$.parts.careless.api_key" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    if not environ:
        assert "7" == origin(effective, "parts.careless.max_tokens")[0]


def test_secret_of_the_right_type(read):
    """A secret that fits is handed over whole, and its repr still hides it."""
    settings = read(environ={"POWERCTX_PARTS__CARELESS__API_KEY": "sk-hunter2"}).settings

    careless = part_settings(Careless, settings, "careless")

    assert "sk-hunter2" == careless.api_key
    assert "hunter2" not in repr(careless)


def test_url_credentials_are_masked(read):
    """Credentials in a URL do not show, whatever the setting is called."""
    effective = read("store = 'db://me:hunter2@host/x?token=abc'\n[parts.p]\nserver = 'http://u:hunter2@h'\n")

    assert '"db://***@host/x?token=***"' == origin(effective, "store")[0]
    assert '"http://***@h"' == origin(effective, "parts.p.server")[0]
    assert "hunter2" not in repr(effective)
    with pytest.raises(ConfigError) as caught:
        read("sinks = 'db://me:hunter2@a-host-with-a-very-long-name-that-is-cut.example.org'")
    assert "hunter2" not in str(caught.value)


SECRETS = """
[parts.p]
passphrase = "hunter2"
pwd = "hunter2"
bearer = "hunter2"
private = "hunter2"
password = 73577357
credential.value = "hunter2"
credentials = ["hunter2"]
server = "http://h/?pwd=hunter2&sig=hunter2&signature=hunter2&size=5"
[[parts.p.endpoints]]
name = "first"
api_key = "hunter2"
url = "http://u:hun/ter2@h"
inner = [{token = "hunter2"}]
"""
LIST = '[{name = "first", api_key = "hunter2", url = "http://u:hun/ter2@h"}]'


@pytest.mark.parametrize("environ", [{}, {"POWERCTX_PARTS__P__ENDPOINTS": LIST}], ids=["file", "environment"])
def test_secrets_are_found_at_every_depth(read, environ):
    """A secret in a table inside a list, under any of the usual names, or in a URL, shows nowhere."""

    @attrs.frozen
    class Flat:
        endpoints: int = 0

    effective = read("" if environ else SECRETS, environ)

    rows = {name: value for name, value, _ in show(effective)}
    shown = str(rows) + repr(effective)
    with pytest.raises(ConfigError) as caught:
        part_settings(Flat, effective.settings, "p")
    for secret in ("hunter2", "hun/ter2", "73577357"):
        assert secret not in shown + str(caught.value)
        assert secret in secrets(effective.settings, "p") or environ
    assert rows["parts.p.endpoints"].startswith('[{ name = "first", api_key = "***", url = "http://***@h"')
    if not environ:
        assert '"http://h/?pwd=***&sig=***&signature=***&size=5"' == rows["parts.p.server"]


def test_a_variable_that_cannot_be_read_shows_no_secret(read):
    """A list that is not closed, or is JSON, is hidden as a whole when it names a secret."""
    effective = read(environ={"POWERCTX_PARTS__P__A": '[{"api_key": "hunter2"', "POWERCTX_PARTS__P__B": '["a"'})

    assert '"***"' == origin(effective, "parts.p.A".lower())[0]
    assert "a" in origin(effective, "parts.p.b")[0]
    assert "hunter2" not in repr(effective)


def test_references_inside_tables_of_a_list(read):
    """A reference is replaced wherever it stands."""
    effective = read("[[parts.p.endpoints]]\napi_key = '$env:KEY'", {"KEY": "hunter2"})

    assert [{"api_key": "hunter2"}] == effective.settings.parts["p"]["endpoints"]
    assert '[{ api_key = "$env:KEY" }]' == origin(effective, "parts.p.endpoints")[0]


def test_default_store_url():
    """The default store is a SQLite file in the user's data folder, by absolute path."""
    url = default_store_url()

    assert f"sqlite:///{platformdirs.user_data_path().as_posix()}/powerctx/powerctx.db" == url
