"""The conformance kit's own rules: no overriding, declared lacks, reasoned waivers, a printed profile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("hypothesis", reason="the kit needs powerctx-core[testing]")

from powerctx_core.ports import Capability
from powerctx_core.testing import CatalogueContract, FamilyContract, Lack, cannot, not_yet
from powerctx_core.testing.contract import contract_tests

STORE = """
import pytest
from powerctx_core.ports import Capability
from powerctx_core.testing import CatalogueContract, cannot, not_yet
from powerctx_core.testing.contracts.revisions import RevisionContract

class TestStore(RevisionContract):
    plugins = ()
    lacks = {
        Capability.DURABLE: cannot("lives in memory"),
        Capability.MULTI_PROCESS: not_yet("until 2.0"),
        Capability.REMOTE: cannot("is at home"),
    }
    waivers = {}

    @pytest.fixture
    def store_url(self):
        return "memory://"
"""
WAIVED = STORE.replace("waivers = {}", 'waivers = {"test_retire": "retires late"}')
FORGETS = """

from powerctx_core.memory_store import MemorySnapshot

MemorySnapshot.latest = lambda snapshot, *name: (snapshot.history(*name) or (None,))[-1]
"""

STRAYS = """
import attrs
from powerctx_core import FamilySpec, hookimpl
from powerctx_core.families import StoredFamily
from powerctx_core.testing import FamilyContract

class Strays(StoredFamily):
    def retrieve(self, request, call):
        pool = super().retrieve(attrs.evolve(request, k=request.k + 1), call)
        elsewhere = {
            key: attrs.evolve(each, address=attrs.evolve(each.address, scope_id="project:elsewhere"))
            for key, each in pool.candidates.items()
        }
        return attrs.evolve(pool, candidates=elsewhere)

class Plugin:
    @hookimpl
    def powerctx_families(self):
        yield FamilySpec(name="strays", factory=Strays, about="strays")

class TestStrays(FamilyContract):
    family_name = "strays"
    plugins = ()
    extra = (Plugin(),)
"""
"""A family whose members are of another scope, and one more than asked for."""
FORGETFUL = """
import pytest
from powerctx_core import Capability, MemoryStore, NoSettings, StoreSpec, hookimpl
from powerctx_core.testing import cannot
from powerctx_core.testing.contracts.processes import ProcessContract

class Plugin:
    @hookimpl
    def powerctx_stores(self):
        yield StoreSpec(
            name="forgetful",
            schemes=("forgetful",),
            factory=lambda url, settings: MemoryStore("memory://", NoSettings()),
            about="keeps nothing",
            capabilities=frozenset(Capability) - {Capability.REMOTE},
        )

class TestForgetful(ProcessContract):
    plugins = ()
    extra = (Plugin(),)
    lacks = {Capability.REMOTE: cannot("is at home")}

    @pytest.fixture
    def store_url(self):
        return "forgetful://"
"""
"""A store that says it is durable, and forgets everything."""


QUIET = STORE.replace("class TestStore(RevisionContract)", "class TestStore(Quiet, RevisionContract)").replace(
    "class TestStore", "class Quiet:\n    def __init_subclass__(cls):\n        pass\n\nclass TestStore"
)
HIDDEN = {
    "class-skip": (STORE + '\n    pytestmark = pytest.mark.skip(reason="later")\n', "was skipped (later)"),
    "class-xfail": (STORE + '\n    pytestmark = pytest.mark.xfail(reason="later")\n', "is expected to fail (later)"),
    "class-needs": (STORE + "\n    pytestmark = pytest.mark.needs(Capability.DURABLE)\n" + FORGETS, "AssertionError"),
    "fixture-skips": (STORE.replace("return ", 'pytest.skip("no server") or '), "was skipped (no server)"),
    "fixture-xfails": (STORE.replace("return ", 'pytest.xfail("no server") or '), "is expected to fail (no server)"),
    "fixture-beside": (
        STORE + '\n    @pytest.fixture(autouse=True)\n    def wait(self):\n        pytest.skip("no time")\n',
        "was skipped (no time)",
    ),
    "waived-setup": (WAIVED.replace("return ", "1 / 0 or "), "is waived, but its setup fails"),
    "mixin": (QUIET + "\n    def test_retire(self):\n        pass\n", "TestStore overrides test_retire"),
    "mixin-waives": (QUIET.replace("waivers = {}", "waivers = {'test_gone': 'x'}"), "TestStore waives test_gone"),
    "replaced-later": (STORE + "\nTestStore.test_retire = lambda self: None\n", "TestStore overrides test_retire"),
    "removed-later": (STORE + "\nTestStore.test_retire = None\n", "TestStore overrides test_retire"),
}
"""Ways to hide a test of a contract: the author's module, and what the run has to say."""


def run(folder: Path, source: str | dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test module of an author, or several by their names, in a process of its own."""
    for name, text in ({"author": source} if isinstance(source, str) else source).items():
        (folder / f"test_{name}.py").write_text(dedent(text), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "powerctx_core.testing.plugin", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        env={**os.environ, "COLUMNS": "400", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def declared(**fields: object) -> type:
    """Make an author's subclass."""
    return type("TestAuthor", (CatalogueContract,), {"__module__": "author", **fields})


@pytest.mark.parametrize("value", [lambda self: None, None], ids=["overridden", "deleted"])
def test_no_overriding(value):
    """A contract test is neither replaced nor removed; the error names it and says what to do."""
    with pytest.raises(TypeError, match=r"TestAuthor overrides test_retire .* waivers = \{'test_retire': 'reason'\}"):
        declared(test_retire=value)


def test_no_overriding_beside():
    """A class beside the contract cannot replace a test of it either."""

    class Beside:
        def test_retire(self):
            """Do nothing."""

    with pytest.raises(TypeError, match="overrides test_retire"):
        type("TestAuthor", (Beside, CatalogueContract), {"__module__": "author"})


def test_own_tests_are_welcome():
    """An author's own tests and fixtures stand beside those of the contract."""
    author = declared(test_of_my_own=lambda self: None, store_url="acme://", _helper=1)

    assert issubclass(author, CatalogueContract)


def test_unknown_waiver():
    """A waiver names a test that the contract has."""
    with pytest.raises(TypeError, match="waives test_nothing_of_the_kind, which the contract does not have; remove it"):
        declared(waivers={"test_nothing_of_the_kind": "why not"})


@pytest.mark.parametrize("reason", ["", " \n"])
def test_waiver_without_reason(reason):
    """A waiver says why."""
    with pytest.raises(TypeError, match="waives test_retire without a reason"):
        declared(waivers={"test_retire": reason})


def test_lack_without_reason():
    """A lack says why, and whether it is for good."""
    with pytest.raises(ValueError, match="reason"):
        cannot("")
    with pytest.raises(TypeError, match=r"lacks: durable is not given as not_yet\('why'\) or cannot\('why'\)"):
        declared(lacks={Capability.DURABLE: "later"})

    assert [Lack("not-yet", "later"), Lack("cannot", "never")] == [not_yet("later"), cannot("never")]


def test_no_two_tests_of_one_name():
    """Of two contracts with a test of one name one would hide the other, so they cannot be joined."""
    kit = "powerctx_core.testing.contracts.made"
    one = type("OneContract", (CatalogueContract,), {"__module__": kit, "test_made": lambda self: None})
    other = type("OtherContract", (CatalogueContract,), {"__module__": kit, "test_made": lambda self: None})

    with pytest.raises(TypeError, match="inherits test_made from OneContract and OtherContract"):
        type("TestBoth", (one, other), {"__module__": "author"})


def test_honest_store(tmp_path):
    """A part that holds to its contract passes, and its profile is printed."""
    done = run(tmp_path, STORE)

    assert done.returncode == 0, done.stdout
    assert "TestStore: full lexical, vector, window, revisions, tags, transactions\n" in done.stdout
    assert "  cannot durable: lives in memory\n  not-yet multi-process: until 2.0\n" in done.stdout


def test_failure_names_the_sides(tmp_path):
    """A failure says which side of its comparison the store gave."""
    done = run(tmp_path, STORE + FORGETS, "-k", "test_retire")

    assert done.returncode == 1
    assert "the left side is what the store gave, and the right side what the contract expects" in done.stdout


def test_what_is_left_out_is_printed(tmp_path):
    """Tests of what a part lacks are left out, and named in the profile."""
    done = run(tmp_path, STORE.replace("(RevisionContract)", "(CatalogueContract)"), "-k", "test_says_what or durable")

    assert done.returncode == 0, done.stdout
    assert "  left out: " in done.stdout
    assert "test_durable" in done.stdout


def test_profile_under_xdist(tmp_path):
    """So it is when the tests run in several processes, once."""
    pytest.importorskip("xdist", reason="the profile crosses its processes")
    source = WAIVED.replace("(RevisionContract)", "(CatalogueContract)") + FORGETS
    done = run(tmp_path, source, "-n2", "-k", "test_says_what or test_retire or durable")

    assert done.returncode == 0, done.stdout
    assert done.stdout.count("TestStore: full lexical") == 1
    assert "  left out: " in done.stdout
    assert "  waived test_retire: retires late\n" in done.stdout


def test_waived_test_that_fails(tmp_path):
    """A waived test that fails fails nothing, and is named with its reason in the profile."""
    done = run(tmp_path, WAIVED + FORGETS, "-k", "test_says_what or test_retire")

    assert done.returncode == 0, done.stdout
    assert "1 xfailed" in done.stdout
    assert "  waived test_retire: retires late\n" in done.stdout


def test_unused_waiver(tmp_path):
    """A waived test that passes fails the run: the waiver has to go."""
    done = run(tmp_path, WAIVED)

    assert done.returncode == 1
    assert "test_retire" in done.stdout
    assert "XPASS(strict)" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            '        Capability.DURABLE: cannot("lives in memory"),\n',
            "",
            "neither the record nor lacks of TestStore names durable; add what the store can do to the record's",
        ),
        (
            "lacks = {",
            'lacks = {Capability.TAGS: not_yet("soon"), ',
            "the record promises tags, and lacks of TestStore says that it is missing; take what the store can do out",
        ),
    ],
    ids=["missing", "too many"],
)
def test_lacks_agree_with_the_record(tmp_path, old, new, says):
    """What is declared to be lacking is what the record does not promise; else it is said which of the two to mend."""
    assert old in STORE
    done = run(tmp_path, STORE.replace(old, new), "-k", "test_says_what_it_can")

    assert done.returncode == 1
    assert "test_says_what_it_can" in done.stdout
    assert says in done.stdout
    assert "TestStore: full lexical" in done.stdout


def test_fixture_is_missing(tmp_path):
    """Who forgets the fixture is told its name."""
    done = run(tmp_path, STORE.replace("def store_url", "def store_uri"), "-k", "test_says_what_it_can")

    assert done.returncode == 1
    assert "TestStore needs a fixture store_url that returns a fresh store's URL" in done.stdout


def test_nothing_is_hidden(tmp_path):
    """No mark, fixture, base class or later change hides a test: the run fails and says what it is about."""
    sources = {name: source for name, (source, _) in HIDDEN.items()}
    done = run(tmp_path, sources, "-k", "test_retire and not all", "--continue-on-collection-errors", "-rfEsxXp")
    lines = {name: [line for line in done.stdout.splitlines() if f"test_{name}.py" in line] for name in HIDDEN}

    assert done.returncode == 1
    assert {} == {
        name: lines[name]
        for name, (_, says) in HIDDEN.items()
        if not any(line.startswith(("FAILED", "ERROR")) for line in lines[name]) or says not in done.stdout
    }
    assert "passed" not in done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]


def test_hidden_by_conftest(tmp_path):
    """A ``conftest.py`` hides none either; the author's own tests may be skipped."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture(autouse=True)\ndef wait():\n    pytest.skip('no time')\n"
    )
    done = run(
        tmp_path, STORE + "\n    def test_of_my_own(self):\n        pass\n", "-k", "test_retire and not all or my_own"
    )

    assert done.returncode == 1
    assert "1 skipped" in done.stdout
    assert "TestStore.test_retire was skipped (no time): a test of a contract is never left out" in done.stdout


def test_replaced_in_the_contract(tmp_path):
    """A test that was replaced in the contract itself is noticed, too."""
    done = run(tmp_path, STORE + "\nRevisionContract.test_retire = lambda self: None\n")

    assert done.returncode == 2
    assert "TestStore overrides test_retire of the contract" in done.stdout


def test_waiver_of_any_contract(tmp_path):
    """Waivers are printed with their reasons, where no profile names them, too."""
    done = run(tmp_path, WAIVED + FORGETS, "-k", "test_retire")

    assert done.returncode == 0, done.stdout
    assert "::TestStore:\n  waived test_retire: retires late\n" in done.stdout


def test_where_to_begin(tmp_path):
    """Of several failures the most basic is named at the end, with what it asks for and the page that explains it."""
    done = run(tmp_path, STORE + FORGETS.replace("(None,)", "('no',)"))
    summary = done.stdout.partition("= conformance =")[2]

    assert done.returncode == 1
    assert "TestStore: mend test_" in summary
    assert " first" in summary
    assert "What its failure means: docs/plugins/store.md#when-a-test-fails\n" in summary


def test_says_what_was_lost(tmp_path):
    """A store that forgets is told in words what is gone."""
    done = run(tmp_path, FORGETFUL, "-k", "test_durable")

    assert done.returncode == 1
    assert (
        "after closing and opening, the number of items by partition: your part gives {}; the kit expects"
        in done.stdout
    )


def test_says_what_strays(tmp_path):
    """A family is told which member is not of its scope, and in which channel there are how many too many."""
    done = run(tmp_path, STRAYS, "-k", "test_sizes or test_at_most_k")

    assert done.returncode == 1
    assert "/strays/choice@1: your part gives a member that the kit has not put there" in done.stdout
    assert "channels with more members than k=1, and how many they have: your part gives {'fts': 2" in done.stdout
    assert "KeyError" not in done.stdout


def test_counts_come_before_what_is_computed_from_them():
    """The tests of a family's counts come before those that judge by these, so that they are named first."""
    tests = list(contract_tests(FamilyContract))
    counts = ("test_occurrences", "test_length", "test_statistics", "test_cosines")

    assert max(map(tests.index, counts)) < min(map(tests.index, ("test_best_by_words", "test_best_by_vector")))
