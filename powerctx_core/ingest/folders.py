"""Makes items of folders, so that what lies in one can be found and shown as a whole.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from powerctx_core.ingest.documents import one_line, short_abstract
from powerctx_core.text.cut import cut_to_bytes, derived_overview
from powerctx_core.types import ABSTRACT_BYTES, Item

__all__ = ["Folders"]

_OVERVIEW_BYTES = 2000
_LINE_BYTES = 160
_HEADS = ("readme", "index")
"""Names, without ending, of the document that says what its folder is; the first one is preferred."""


class Folders:
    """The folders of one run, and the documents that lie in them.

    Args:
        scope_id, family: of their items.
        ids: of the folders; what lies in none of them is passed over.
    """

    def __init__(self, scope_id: str, family: str, ids: Iterable[str]) -> None:
        self.scope_id = scope_id
        self.family = family
        self._lines: dict[str, dict[str, str]] = {folder_id: {} for folder_id in ids}
        self._documents: dict[str, int] = dict.fromkeys(self._lines, 0)
        self._heads: dict[str, tuple[int, Item]] = {}

    def add(self, artifact_id: str, item: Item) -> None:
        """Note a document, given its id and its item, or the first one of its parts."""
        folder_id = self._above(artifact_id)
        if not folder_id:
            return
        name = artifact_id[len(folder_id) + 1 :]
        self._lines[folder_id][name] = one_line(item.abstract or short_abstract(item.text), _LINE_BYTES)
        self._documents[folder_id] += 1
        stem = name.partition(".")[0].lower()
        if stem in _HEADS:
            head = (_HEADS.index(stem), item)
            self._heads[folder_id] = min(self._heads.get(folder_id, head), head, key=lambda each: each[0])

    def items(self) -> Iterator[Item]:
        """Yield the item of each folder that holds a document, those further down first.

        Its text is what lies in it, a line each; its overview is how its README or index begins, else the same lines.
        """
        for folder_id in self._upwards():
            if not self._documents[folder_id]:
                continue
            item = self._item(folder_id)
            yield item
            if above := self._above(folder_id):
                name = f"{folder_id[len(above) + 1 :]}/"
                self._lines[above][name] = one_line(item.abstract or "", _LINE_BYTES)
                self._documents[above] += self._documents[folder_id]

    @property
    def empty(self) -> tuple[str, ...]:
        """Ids of folders without any document, after :meth:`items` was read to its end."""
        return tuple(folder_id for folder_id, count in self._documents.items() if not count)

    def _above(self, artifact_id: str) -> str:
        """Return the nearest folder above, or nothing."""
        above = artifact_id.rpartition("/")[0]
        while above and above not in self._lines:
            above = above.rpartition("/")[0]
        return above

    def _upwards(self) -> list[str]:
        return sorted(self._lines, key=lambda folder_id: (-folder_id.count("/"), folder_id))

    def _item(self, folder_id: str) -> Item:
        lines = self._lines[folder_id]
        listing = _listing([f"{name}: {line}" if line else name for name, line in sorted(lines.items())])
        _, head = self._heads.get(folder_id, (0, None))
        title, overview = folder_id.rpartition("/")[2], listing
        count = self._documents[folder_id]
        abstract = f"{count} document{'' if count == 1 else 's'}: {', '.join(sorted(lines))}"
        if head is not None:
            title = head.title or title
            abstract = head.abstract or short_abstract(head.text)
            overview = derived_overview(head.text) or cut_to_bytes(head.text.strip(), _OVERVIEW_BYTES)
        return Item(
            scope_id=self.scope_id,
            family=self.family,
            artifact_id=folder_id,
            kind="directory",
            title=title,
            abstract=one_line(abstract, ABSTRACT_BYTES),
            overview=overview,
            text=listing,
        )


def _listing(lines: list[str]) -> str:
    """Return as many of *lines* as an overview holds, and how many are missing."""
    shown: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > _OVERVIEW_BYTES - len("… and 1000000 more") and shown:
            return "\n".join([*shown, f"… and {len(lines) - len(shown)} more"])
        shown.append(line)
    return "\n".join(shown)
