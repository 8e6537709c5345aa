"""Scopes of names: columns visible from FROM and from enclosing queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import Field, RelationNode, reference
from tacit.query.relational.expressions import Expression, Reference, rewrite, shift

__all__ = ["Correlated", "Scope", "ScopeSource", "from_relation", "renamed"]


@dataclass(frozen=True)
class ScopeSource:
    """One table of FROM under its alias: names and what they stand for, in order."""

    alias: str
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Scope:
    """The sources of one SELECT.

    Args:
        sources: in the order of FROM.
        merged: columns that USING made one, by lower-case name; they win over the sources' own.
    """

    sources: tuple[ScopeSource, ...] = ()
    merged: dict[str, Expression] = field(default_factory=dict)

    def find(self, name: str, table: str | None) -> Expression:
        """The column of that name, or a refusal that says what there is."""
        found = self.matches(name, table)
        if not found:
            where = f" in {table}" if table else ""
            raise Refusal("unknown_column", f"There is no column {name!r}{where}; {self._known(table)}")
        if len(found) > 1:
            raise Refusal("ambiguous_column", f"The column {name!r} occurs more than once; write it as table.column.")
        return found[0]

    def matches(self, name: str, table: str | None) -> list[Expression]:
        """Every meaning of a name."""
        wanted = name.lower()
        if table is None and wanted in self.merged:
            return [self.merged[wanted]]
        sources = [s for s in self.sources if table is None or s.alias.lower() == table.lower()]
        return [e for source in sources for column, e in source.columns if column.lower() == wanted]

    def star(self, table: str | None) -> list[tuple[str, Expression]]:
        """What ``*`` or ``table.*`` lists; a column merged by USING once."""
        sources = [s for s in self.sources if table is None or s.alias.lower() == table.lower()]
        if not sources:
            raise Refusal(
                "unknown_table", f"There is no table {table!r} in FROM." if table else "There is no FROM to expand *."
            )
        listed: list[tuple[str, Expression]] = []
        seen: set[str] = set()
        for source in sources:
            for name, expression in source.columns:
                shared = table is None and name.lower() in self.merged
                if not shared or name.lower() not in seen:
                    listed.append((name, self.merged[name.lower()] if shared else expression))
                seen.add(name.lower())
        return listed

    def shifted(self, by: int) -> Scope:
        """The same names over columns that stand further right."""
        moved = tuple(ScopeSource(s.alias, tuple((n, shift(e, by)) for n, e in s.columns)) for s in self.sources)
        return Scope(moved, {name: shift(e, by) for name, e in self.merged.items()})

    def over(self, relation: RelationNode) -> Scope:
        """The same names with what is now known about the columns of ``relation``, which has them in the same slots."""
        return self.renewed(lambda slot: reference(relation, slot))

    def renewed(self, read: Callable[[int], Expression]) -> Scope:
        """The same names with every column read anew."""

        def fresh(node: Expression) -> Expression:
            return rewrite(node, lambda part: read(part.slot) if isinstance(part, Reference) else None)

        renewed = tuple(ScopeSource(s.alias, tuple((n, fresh(e)) for n, e in s.columns)) for s in self.sources)
        return Scope(renewed, {name: fresh(e) for name, e in self.merged.items()})

    def beside(self, other: Scope) -> Scope:
        """Both, where no alias occurs twice."""
        aliases = [s.alias.lower() for s in (*self.sources, *other.sources) if s.alias]
        if len(set(aliases)) != len(aliases):
            raise Refusal("duplicate_name", "Two tables in FROM have one name; give one of them an alias.")
        return Scope((*self.sources, *other.sources), {**self.merged, **other.merged})

    def _known(self, table: str | None) -> str:
        names = [n for s in self.sources if table is None or s.alias.lower() == table.lower() for n, _ in s.columns]
        if not names:
            return "check the table name." if table else "there is no FROM."
        shown = ", ".join(dict.fromkeys(names[:20]))
        return f"there are {shown}{', …' if len(names) > 20 else ''}."


@dataclass(frozen=True)
class Correlated(Scope):
    """The names of a subquery, and behind them those of the query around it."""

    outer: Scope = field(default_factory=Scope)

    def find(self, name: str, table: str | None) -> Expression:
        """The subquery's own column of that name, else the outer query's."""
        if self.matches(name, table) or not self.outer.matches(name, table):
            return Scope.find(self, name, table)
        return self.outer.find(name, table)


def from_relation(relation: RelationNode, alias: str, names: Sequence[str] | None = None) -> Scope:
    """The visible columns of a relation under an alias, renamed in order where names are given."""
    visible = [(column, slot) for slot, column in enumerate(relation.fields) if column.name is not None]
    called = renamed([column for column, _ in visible], names)
    columns = tuple((name, reference(relation, slot)) for name, (_, slot) in zip(called, visible, strict=True))
    return Scope((ScopeSource(alias, columns),))


def renamed(columns: Sequence[Field], names: Sequence[str] | None) -> list[str]:
    """The names of columns, the first of them replaced as ``AS t(a, b)`` says."""
    own = [column.name or "" for column in columns]
    if names is None:
        return own
    if len(names) > len(own):
        raise Refusal("arguments", f"The alias names {len(names)} columns, but there are {len(own)}.")
    if len({name.lower() for name in names}) != len(names):
        raise Refusal("duplicate_name", "The alias names a column twice.")
    return [*names, *own[len(names) :]]
