"""A damaged file: every read is right or says so, and a complete reading finds what single reads cannot."""

from __future__ import annotations

import random
import sqlite3

import pytest

import powerctx_core as powerctx
from powerctx_core import Deadline, Item, StoreError

PAGE = 4096
QUERIES = ("word1 word2 word3", "word17", "火锅 word100", "nowhere")
SEEDS = 40


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of a store with long and short items, revisions, retired items, threads and vectors."""
    path = tmp_path_factory.mktemp("good") / "notes.db"
    chance = random.Random(1)
    words = [f"word{n}" for n in range(200)] + ["火锅"]
    with powerctx.open(f"sqlite:///{path}", settings={"embedder": "hash"}) as ctx:
        ctx.put(
            [
                Item(
                    scope_id="s",
                    artifact_id=f"a{n}",
                    text=" ".join(chance.choices(words, k=20 if n % 20 else 900)),
                    thread=f"t{n % 9}",
                    position=n,
                    tags=("x",),
                    meta={"n": n},
                )
                for n in range(200)
            ]
        )
        ctx.put(
            [
                Item(scope_id="s", artifact_id=f"a{n}", text=" ".join(chance.choices(words, k=20)))
                for n in range(0, 200, 10)
            ]
        )
        ctx.retire([f"powerctx://s/memory/a{n}" for n in range(5, 200, 50)])
    return path.read_bytes()


def open_again(path, **own):
    """Open the store at *path*, with vectors."""
    return powerctx.open(f"sqlite:///{path}", settings={"embedder": "hash", "parts": {"sqlite": own}})


def answers(ctx):
    """Yield functions, each of which reads something."""
    for query in QUERIES:
        yield lambda query=query: ctx.prepare(query, scope_id="s").content
        yield lambda query=query: repr(ctx.find(query, scope_id="s", limit=50).hits)
    for n in range(0, 200, 7):
        yield lambda n=n: repr(ctx.history(f"powerctx://s/memory/a{n}"))
    yield lambda: dict(ctx.partitions())


def problems(path):
    """Return what a complete reading finds, and assert that it changes no file."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    try:
        with open_again(path, inspect=True) as ctx:
            found = ctx.store.check(Deadline()).problems
    except StoreError as error:
        found = (str(error),)
    assert before == {file.name: file.read_bytes() for file in path.parent.iterdir()}
    return found


def damaged(good, chance):
    """Return *good* with one bit, 50 bytes, or a whole page of it changed, anywhere."""
    content = bytearray(good)
    at = chance.randrange(len(content))
    page = at // PAGE * PAGE
    kind = chance.choice(("bit", "bytes", "page", "zeros"))
    if kind == "bit":
        content[at] ^= 1 << chance.randrange(8)
    elif kind == "bytes":
        content[at : at + 50] = chance.randbytes(len(content[at : at + 50]))
    else:
        content[page : page + PAGE] = chance.randbytes(PAGE) if kind == "page" else bytes(PAGE)
    return bytes(content)


def test_damage_anywhere(good, path):
    """Reads of a damaged file answer as before or raise one sentence, and whatever they do the check finds damage."""
    path.write_bytes(good)
    assert () == problems(path)
    with open_again(path) as ctx:
        expected = [answer() for answer in answers(ctx)]

    for seed in range(SEEDS):
        path.write_bytes(damaged(good, random.Random(seed)))
        wrong = 0
        try:
            with open_again(path) as ctx:
                for answer, right in zip(answers(ctx), expected, strict=True):
                    try:
                        wrong += right != answer()
                    except powerctx.NotFound:
                        wrong += 1
                    except StoreError as error:
                        wrong += 1
                        check_sentence(str(error), path)
        except StoreError as error:
            check_sentence(str(error), path)
            continue
        finally:
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        found = problems(path)
        assert found or not wrong, seed
        assert len(found) <= 4, seed


def check_sentence(message, path):
    """Assert that *message* names the file and the next step, on one line of bounded length."""
    assert str(path) in message
    assert "backup" in message or "choose another path" in message, message
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE revision SET meta = '{' WHERE artifact_id = 'a7'", "1 of 220 revisions are not as they were written"),
        ("UPDATE revision SET head = head || '!' WHERE artifact_id = 'a7'", "the first is revision 1 of 'a7' in 's'"),
        ("UPDATE revision SET kind = CAST(x'ff' AS TEXT) WHERE artifact_id = 'a7'", "damaged"),
        ("UPDATE revision SET created_at = 1 << 62 WHERE artifact_id = 'a7'", "1 of 220 revisions"),
        (
            "UPDATE revision SET thread = 'other' WHERE artifact_id = 'a10' AND number = 1",
            "first is revision 1 of 'a10'",
        ),
        ("UPDATE revision SET abstract = 'other' WHERE artifact_id = 'a7'", "1 of 220 revisions"),
        ("UPDATE analysis SET length = length + 1 WHERE artifact_id = 'a7'", "not those of their texts"),
        ("UPDATE analysis SET terms = ' x ' WHERE artifact_id = 'a7'", "not those of their texts"),
        ("DELETE FROM analysis WHERE artifact_id = 'a7'", "not those of their texts"),
        ("UPDATE partition SET item_count = item_count + 1", "not those of their texts"),
        ("INSERT INTO lexical(lexical) VALUES ('delete-all')", "does not hold the terms"),
        ("INSERT INTO lexical(rowid, terms) VALUES (4294967297, 'zzz')", "does not hold the terms"),
        ("UPDATE vector SET embedding = zeroblob(128)", "196 of 196 vectors"),
        ("UPDATE vector SET embedding = x'00'", "196 of 196 vectors"),
        ("INSERT INTO vector SELECT 7, 1, stamp, text_hash, embedding FROM vector LIMIT 1", "1 of 197 vectors"),
    ],
)
def test_check_finds(good, path, statement, told):
    """Each thing that does not agree with the others is found, by what is wrong and what to do."""
    path.write_bytes(good)
    with sqlite3.connect(path) as plain:
        plain.execute("DROP TRIGGER revision_immutable")
        declared = "CREATE TRIGGER revision_immutable BEFORE UPDATE OF head ON revision BEGIN SELECT 1; END"
        plain.execute(statement)
        plain.execute(declared)
    plain.close()

    (found,) = problems(path)

    assert told in found
    assert any(step in found for step in ("restore a backup", "index --rebuild", "embed --rebuild"))


@pytest.mark.parametrize("value", ["'{'", "'[1'", "CAST(x'7b2261223aff7d' AS TEXT)", "'7'"])
def test_row_that_makes_no_sense(good, path, value):
    """A stored value that nobody wrote so is told as damage by every read that meets it, and not quoted."""
    path.write_bytes(good)
    with sqlite3.connect(path) as plain:
        plain.execute("DROP TRIGGER revision_immutable")
        plain.execute(f"UPDATE revision SET meta = {value} WHERE current = 1")
    plain.close()

    with open_again(path) as ctx:
        for read in (
            lambda: ctx.get("powerctx://s/memory/a7"),
            lambda: ctx.history("powerctx://s/memory/a7"),
            lambda: ctx.prepare("word17 word3", scope_id="s"),
            lambda: ctx.find("word17 word3", scope_id="s"),
        ):
            with pytest.raises(StoreError, match="damaged") as caught:
                read()
            check_sentence(str(caught.value), path)


def test_rebuild_repairs_the_index(good, path, ask, opened):
    """What the check says of the index is repaired by what it says to do."""
    path.write_bytes(good)
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE analysis SET terms = ' x ', repeats = NULL, length = 1")
        plain.execute("INSERT INTO lexical(lexical) VALUES ('delete-all')")
    plain.close()
    assert "index --rebuild" in problems(path)[0]

    store = opened()
    list(store.catalogue.reindex())
    store.close()

    assert () == problems(path)


def test_check_within_its_time(good, path):
    """What a check does not come to is named and is no problem."""
    path.write_bytes(good)

    with open_again(path, inspect=True) as ctx:
        status = ctx.store.check(Deadline.after(-1))

    assert () == status.problems
    assert "not all, for want of time" == status.facts["pages checked"]


@pytest.mark.parametrize("embedder", [None, "hash"])
@pytest.mark.parametrize(("items", "told"), [(1, "1 revision"), (2, "2 revisions")])
def test_what_was_checked(path, embedder, items, told):
    """The number of revisions is told, and that of vectors where there are any: a companion keeps none of its own."""
    with powerctx.open(f"sqlite:///{path}", settings={"embedder": embedder} if embedder else {}) as ctx:
        ctx.put([Item(scope_id="s", artifact_id=f"a{n}", text=f"word{n}") for n in range(items)])
        facts = ctx.store.check(Deadline.after(60)).facts

    assert f"all, with {told}" == facts["items checked"]
    assert (f"all {items}" if embedder else None) == facts.get("vectors checked")
