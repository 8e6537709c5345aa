"""Tables of the system, ``pg_catalog``, ``information_schema`` and ``tacit``, filled from public metadata.

Each is a real table of an embedded database, so that any query of a tool has a true answer: a declared table is a row
of ``pg_class``, a declared foreign key one of ``pg_constraint``, and a table of things that Tacit does not have, such as
triggers, has no rows. Nothing in them comes from data: ``reltuples`` says "unknown", and there are no statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.query.catalog import Catalog, Column, Table
from tacit.releases.notebook_tables import known_of, owner_of
from tacit.server.pgwire.types import ARRAYS, OID, TEXT_OID, TYPES, column_of, oid_of

PUBLIC: Final = 2200
_CATALOG: Final = 11
_INFORMATION: Final = 13200
_TACIT: Final = 16383
_OWNER: Final = 10
#: Numbers below 16,384 are the system's, and tools hide what has them.
_DATABASE: Final = 99_999
_FIRST: Final = 16384
_INDEXES: Final = 100_000
_FIRST_SYSTEM: Final = 12000
_KNOWN: Final = {"pg_class": 1259, "pg_type": 1247, "pg_attribute": 1249, "pg_namespace": 2615, "pg_proc": 1255,
                 "pg_constraint": 2606, "pg_database": 1262, "pg_attrdef": 2604, "pg_description": 2609,
                 "pg_roles": 12016, "pg_index": 2610, "pg_am": 2601, "pg_trigger": 2620}  # fmt: skip
#: Tables about a person's account, filled for each query: their columns.
DYNAMIC: Final = {
    "budget": "population text, owner text, currency text, cap text, spent text, remaining text",
    "history": "position int8, population text, charge text, sql text, analyst text, answered bool",
}


@dataclass(frozen=True)
class SystemTable:
    """A table of the system; its columns have types of DuckDB."""

    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    rows: Sequence[Sequence[Any]] = ()


_WORDS: Final = {
    "oid": "UINTEGER", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "text": "VARCHAR", "name": "VARCHAR",
    "char": "VARCHAR", "bool": "BOOLEAN", "float4": "FLOAT", "int2[]": "SMALLINT[]", "text[]": "VARCHAR[]",
    "oid[]": "UINTEGER[]", "timestamptz": "TIMESTAMPTZ",
}  # fmt: skip


def _columns(words: str) -> tuple[tuple[str, str], ...]:
    """Columns from ``name type, name type``."""
    pairs = (part.split() for part in words.split(","))
    return tuple((name, _WORDS[kind]) for name, kind in pairs)


_CLASS: Final = _columns(
    "oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner oid, relam oid, relfilenode oid, "
    "reltablespace oid, relpages int4, reltuples float4, relallvisible int4, reltoastrelid oid, relhasindex bool, "
    "relisshared bool, relpersistence char, relkind char, relnatts int2, relchecks int2, relhasrules bool, "
    "relhastriggers bool, relhassubclass bool, relrowsecurity bool, relforcerowsecurity bool, relispopulated bool, "
    "relreplident char, relispartition bool, relrewrite oid, relfrozenxid int4, relminmxid int4, relacl text[], "
    "reloptions text[], relpartbound text, relhasoids bool"
)
_ATTRIBUTE: Final = _columns(
    "attrelid oid, attname name, atttypid oid, attstattarget int4, attlen int2, attnum int2, attndims int4, "
    "attcacheoff int4, atttypmod int4, attbyval bool, attalign char, attstorage char, attcompression char, "
    "attnotnull bool, atthasdef bool, atthasmissing bool, attidentity char, attgenerated char, attisdropped bool, "
    "attislocal bool, attinhcount int4, attcollation oid, attacl text[], attoptions text[], attfdwoptions text[], "
    "attmissingval text"
)
_TYPE: Final = _columns(
    "oid oid, typname name, typnamespace oid, typowner oid, typlen int2, typbyval bool, typtype char, typcategory char, "
    "typispreferred bool, typisdefined bool, typdelim char, typrelid oid, typsubscript oid, typelem oid, "
    "typarray oid, typinput text, typoutput text, typreceive text, typsend text, typmodin text, typmodout text, "
    "typanalyze text, typalign char, typstorage char, typnotnull bool, typbasetype oid, typtypmod int4, typndims int4, "
    "typcollation oid, typdefaultbin text, typdefault text, typacl text[]"
)
_CONSTRAINT: Final = _columns(
    "oid oid, conname name, connamespace oid, contype char, condeferrable bool, condeferred bool, convalidated bool, "
    "conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid, confupdtype char, confdeltype char, "
    "confmatchtype char, conislocal bool, coninhcount int4, connoinherit bool, conkey int2[], confkey int2[], "
    "conpfeqop oid[], conppeqop oid[], conffeqop oid[], confdelsetcols int2[], conexclop oid[], conbin text, "
    "definition text"
)
_INDEX: Final = _columns(
    "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, indisclustered bool, indisvalid bool, indcheckxmin bool, indisready bool, indislive bool, indisreplident bool, indkey int2[], indcollation oid[], indclass oid[], indoption text, indexprs text, indpred text, definition text, column_name text"
)
#: Tables of things that Tacit does not have.
EMPTY: Final = {
    "pg_attrdef": "oid oid, adrelid oid, adnum int2, adbin text",
    "pg_auth_members": "oid oid, roleid oid, member oid, grantor oid, admin_option bool",
    "pg_available_extensions": "name name, default_version text, installed_version text, comment text",
    "pg_cast": "oid oid, castsource oid, casttarget oid, castfunc oid, castcontext char, castmethod char",
    "pg_default_acl": "oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype char, defaclacl text[]",
    "pg_depend": "classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid int4, deptype char",
    "pg_enum": "oid oid, enumtypid oid, enumsortorder float4, enumlabel name",
    "pg_extension": "oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, extversion text, extconfig oid[], extcondition text[]",
    "pg_foreign_data_wrapper": "oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, fdwacl text[], fdwoptions text[]",
    "pg_foreign_server": "oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text, srvversion text, srvacl text[], srvoptions text[]",
    "pg_foreign_table": "ftrelid oid, ftserver oid, ftoptions text[]",
    "pg_inherits": "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool",
    "pg_matviews": "schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool, ispopulated bool, definition text",
    "pg_opclass": "oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily oid, opcintype oid, opcdefault bool, opckeytype oid",
    "pg_operator": "oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind char, oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate oid",
    "pg_partitioned_table": "partrelid oid, partstrat char, partnatts int2, partdefid oid, partattrs int2[], partclass oid[], partcollation oid[], partexprs text",
    "pg_policy": "oid oid, polname name, polrelid oid, polcmd char, polpermissive bool, polroles oid[], polqual text, polwithcheck text",
    "pg_policies": "schemaname name, tablename name, policyname name, permissive text, roles text[], cmd text, qual text, with_check text",
    "pg_proc": "oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4, prorows float4, provariadic oid, prokind char, prosecdef bool, proleakproof bool, proisstrict bool, proretset bool, provolatile char, proparallel char, pronargs int2, pronargdefaults int2, prorettype oid, proargtypes oid[], proallargtypes oid[], proargmodes text[], proargnames text[], proargdefaults text, prosrc text, probin text, proacl text[]",
    "pg_publication": "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool",
    "pg_publication_namespace": "oid oid, pnpubid oid, pnnspid oid",
    "pg_publication_rel": "oid oid, prpubid oid, prrelid oid, prqual text, prattrs int2[]",
    "pg_range": "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid",
    "pg_replication_slots": "slot_name name, plugin name, slot_type text, datoid oid, database name, active bool",
    "pg_rewrite": "oid oid, rulename name, ev_class oid, ev_type char, ev_enabled char, is_instead bool, ev_qual text, ev_action text",
    "pg_rules": "schemaname name, tablename name, rulename name, definition text",
    "pg_seclabel": "objoid oid, classoid oid, objsubid int4, provider text, label text",
    "pg_seclabels": "objoid oid, classoid oid, objsubid int4, objtype text, objnamespace oid, objname text, provider text, label text",
    "pg_sequence": "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, seqcache int8, seqcycle bool",
    "pg_sequences": "schemaname name, sequencename name, sequenceowner name, data_type text, start_value int8, min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8",
    "pg_shdepend": "dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, deptype char",
    "pg_statistic_ext": "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, stxstattarget int4, stxkeys int2[], stxkind text[]",
    "pg_trigger": "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled char, tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, tgattr int2[], tgargs text, tgqual text, tgoldtable name, tgnewtable name",
    "pg_ts_parser": "oid oid, prsname name, prsnamespace oid",
    "pg_views": "schemaname name, viewname name, viewowner name, definition text",
}  # fmt: skip
_EMPTY_INFORMATION: Final = {
    "check_constraints": "constraint_catalog name, constraint_schema name, constraint_name name, check_clause text",
    "domains": "domain_catalog name, domain_schema name, domain_name name, data_type text",
    "parameters": "specific_catalog name, specific_schema name, specific_name name, ordinal_position int4",
    "routines": "specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name, routine_name name, routine_type text, data_type text",
    "sequences": "sequence_catalog name, sequence_schema name, sequence_name name, data_type text",
    "triggers": "trigger_catalog name, trigger_schema name, trigger_name name, event_object_schema name, event_object_table name",
    "views": "table_catalog name, table_schema name, table_name name, view_definition text",
}  # fmt: skip


@dataclass(frozen=True)
class _Constraint:
    oid: int
    name: str
    kind: str
    table: Table
    column: Column
    target: Table | None = None
    references: Column | None = None


def constraint_text(column: str, target: str = "", references: str = "") -> str:
    """The definition of a constraint, as ``pg_get_constraintdef`` shows it."""
    return f"FOREIGN KEY ({column}) REFERENCES {target}({references})" if target else f"UNIQUE ({column})"


def _place(table: Table, column: Column) -> int:
    return table.columns.index(column) + 1


def system_tables(catalog: Catalog, database: str) -> list[SystemTable]:
    """All tables of the system, for those who see a catalogue; the project is the database."""
    oids = {table.name: _FIRST + i for i, table in enumerate(catalog.tables)}
    constraints = list(_constraints(catalog))
    made = [
        *_public(catalog, database, oids, constraints),
        *(SystemTable("pg_catalog", name, _columns(words)) for name, words in EMPTY.items()),
        *_information(catalog, database, constraints),
        *(SystemTable("information_schema", name, _columns(words)) for name, words in _EMPTY_INFORMATION.items()),
        *_tacit(catalog),
    ]
    system = {
        (each.schema, each.name): _KNOWN.get(each.name, _FIRST_SYSTEM + i)
        for i, each in enumerate([*made, *(SystemTable("tacit", name, _columns(w)) for name, w in DYNAMIC.items())])
    }
    return [*made, *_classes(catalog, oids, constraints, made, system)]


def _constraints(catalog: Catalog) -> Iterator[_Constraint]:
    number = _FIRST + 10_000
    for table in catalog.tables:
        for column in table.columns:
            if column.unique:
                number += 1
                yield _Constraint(number, f"{table.name}_{column.name}_key", "u", table, column)
        for key in table.foreign_keys:
            number += 1
            own, target = table.find(key.column), catalog.table(key.table)
            other = None if target is None else target.find(key.references)
            if own is not None and target is not None and other is not None:
                yield _Constraint(number, f"{table.name}_{own.name}_fkey", "f", table, own, target, other)


def _public(
    catalog: Catalog, database: str, oids: dict[str, int], constraints: list[_Constraint]
) -> Iterator[SystemTable]:
    def table(name: str, words: str, rows: Sequence[Sequence[Any]]) -> SystemTable:
        return SystemTable("pg_catalog", name, _columns(words), rows)

    spaces = ((PUBLIC, "public"), (_CATALOG, "pg_catalog"), (_INFORMATION, "information_schema"), (_TACIT, "tacit"))
    yield table(
        "pg_namespace", "oid oid, nspname name, nspowner oid, nspacl text[]", [(*each, _OWNER, None) for each in spaces]
    )
    yield table(
        "pg_database",
        "oid oid, datname name, datdba oid, encoding int4, datlocprovider char, datistemplate bool, datallowconn bool, "
        "datconnlimit int4, datfrozenxid int4, datminmxid int4, dattablespace oid, datcollate text, datctype text, "
        "daticulocale text, datcollversion text, datacl text[], datlastsysoid oid",
        [(_DATABASE, database, _OWNER, 6, "c", False, True, -1, 1, 1, 1663, "C", "C", None, None, None, 0)],
    )
    # The empty name stands for the person who asks; no other user exists for them.
    roles = [(_OWNER, "tacit", False), (_FIRST + 20_000, "", True)]
    yield table(
        "pg_roles",
        "oid oid, rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, rolcanlogin bool, "
        "rolreplication bool, rolconnlimit int4, rolpassword text, rolvaliduntil timestamptz, rolbypassrls bool, "
        "rolconfig text[]",
        [
            (oid, name, False, True, False, False, login, False, -1, None, None, False, None)
            for oid, name, login in roles
        ],
    )
    yield table(
        "pg_user",
        "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool, passwd text, "
        "valuntil timestamptz, useconfig text[]",
        [(name, oid, False, False, False, False, None, None, None) for oid, name, login in roles if login],
    )
    yield table(
        "pg_stat_gssapi",
        "pid int4, gss_authenticated bool, principal text, encrypted bool, credentials_delegated bool",
        [(0, False, None, False, False)],
    )
    yield table("pg_group", "groname name, grosysid oid, grolist oid[]", [])
    yield table(
        "pg_tables",
        "schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool, hasrules bool, "
        "hastriggers bool, rowsecurity bool",
        [("public", each.name, "tacit", None, False, False, False, False) for each in catalog.tables],
    )
    yield table(
        "pg_am", "oid oid, amname name, amhandler text, amtype char", [(2, "heap", "-", "t"), (403, "btree", "-", "i")]
    )
    yield table(
        "pg_collation",
        "oid oid, collname name, collnamespace oid, collowner oid, collprovider char, collisdeterministic bool, "
        "collencoding int4, collcollate text, collctype text, colliculocale text, collversion text",
        [
            (100, "default", _CATALOG, _OWNER, "d", True, -1, None, None, None, None),
            (950, "C", _CATALOG, _OWNER, "c", True, -1, "C", "C", None, None),
        ],
    )
    yield table(
        "pg_language",
        "oid oid, lanname name, lanowner oid, lanispl bool, lanpltrusted bool, lanplcallfoid oid, laninline oid, "
        "lanvalidator oid, lanacl text[]",
        [(14, "sql", _OWNER, False, True, 0, 0, 0, None)],
    )
    yield table(
        "pg_tablespace",
        "oid oid, spcname name, spcowner oid, spcacl text[], spcoptions text[]",
        [(1663, "pg_default", _OWNER, None, None)],
    )
    yield table(
        "pg_description",
        "objoid oid, classoid oid, objsubid int4, description text",
        list(_descriptions(catalog, oids)),
    )
    yield SystemTable("pg_catalog", "pg_type", _TYPE, list(_types()))
    unique = [each for each in constraints if each.kind == "u"]
    yield SystemTable("pg_catalog", "pg_index", _INDEX, [_index_row(each, oids) for each in unique])
    yield table(
        "pg_indexes",
        "schemaname name, tablename name, indexname name, tablespace name, indexdef text",
        [("public", each.table.name, each.name, None, _index_text(each)) for each in unique],
    )
    yield SystemTable(
        "pg_catalog", "pg_constraint", _CONSTRAINT, [_constraint_row(each, oids, constraints) for each in constraints]
    )


def _descriptions(catalog: Catalog, oids: dict[str, int]) -> Iterator[tuple[int, int, int, str]]:
    """Comments on tables and columns: whose they are, and what is publicly known about their values."""
    for table in catalog.tables:
        yield oids[table.name], 1259, 0, owner_of(table)
        for place, column in enumerate(table.columns, 1):
            if words := "; ".join(known_of(table, column)):
                yield oids[table.name], 1259, place, words


def _types() -> Iterator[tuple[Any, ...]]:
    for each in TYPES.values():
        yield _type_row(each.oid, each.name, each.size, each.category, 0, each.array)
    for array, element in ARRAYS.items():
        yield _type_row(array, f"_{TYPES[element].name}", -1, "A", element, 0)


def _type_row(oid: int, name: str, size: int, category: str, element: int, array: int) -> tuple[Any, ...]:
    array_in = "array_" if element else name
    collation = 100 if category == "S" else 0
    return (
        oid, name, _CATALOG, _OWNER, size, 0 < size <= 8, "p" if oid == 705 else "b", category,
        oid in (TEXT_OID, OID), True, ",", 0, 6179 if element else 0, element, array, f"{array_in}in", f"{array_in}out",
        f"{array_in}recv", f"{array_in}send", "-", "-", "-", "i", "p" if size > 0 else "x", False, 0, -1, 0, collation,
        None, None, None,
    )  # fmt: skip


def _index_of(each: _Constraint, constraints: Sequence[_Constraint]) -> int:
    """The index by which PostgreSQL would keep a column unique: its own, or that of the column a key points to."""
    if each.kind == "u":
        return each.oid + _INDEXES
    found = (c for c in constraints if c.kind == "u" and c.table is each.target and c.column is each.references)
    return next((c.oid + _INDEXES for c in found), 0)


def _index_text(each: _Constraint) -> str:
    return f"CREATE UNIQUE INDEX {each.name} ON public.{each.table.name} USING btree ({each.column.name})"


def _index_row(each: _Constraint, oids: dict[str, int]) -> tuple[Any, ...]:
    return (
        each.oid + _INDEXES, oids[each.table.name], 1, 1, True, False, False, False, True, False, True, False, True, True,
        False, [_place(each.table, each.column)], [0], [0], "0", None, None, _index_text(each), each.column.name,
    )  # fmt: skip


def _constraint_row(each: _Constraint, oids: dict[str, int], constraints: Sequence[_Constraint]) -> tuple[Any, ...]:
    keys = [_place(each.table, each.column)]
    target = 0 if each.target is None else oids[each.target.name]
    others = None
    if each.target is not None and each.references is not None:
        others = [_place(each.target, each.references)]
        words = constraint_text(each.column.name, each.target.name, each.references.name)
    else:
        words = constraint_text(each.column.name)
    act = "a" if target else " "
    match = "s" if target else " "
    return (
        each.oid, each.name, PUBLIC, each.kind, False, False, True, oids[each.table.name], 0,
        _index_of(each, constraints), 0, target, act, act,
        match, True, 0, True, keys, others, None, None, None, None, None, None, words,
    )  # fmt: skip


def _classes(
    catalog: Catalog,
    oids: dict[str, int],
    constraints: list[_Constraint],
    made: list[SystemTable],
    system: dict[tuple[str, str], int],
) -> Iterator[SystemTable]:
    """``pg_class`` and ``pg_attribute``, which also list themselves and all other tables of the system."""
    spaces = {"pg_catalog": _CATALOG, "information_schema": _INFORMATION, "tacit": _TACIT, "public": PUBLIC}
    keyed = {each.table.name for each in constraints} | {c.target.name for c in constraints if c.target is not None}
    unique = [each for each in constraints if each.kind == "u"]
    indexed = {each.table.name for each in unique}
    classes = [
        _class_row(oids[each.name], each.name, PUBLIC, "r", len(each.columns), each.name in keyed, each.name in indexed)
        for each in catalog.tables
    ]
    classes += [_class_row(each.oid + _INDEXES, each.name, PUBLIC, "i", 1, False) for each in unique]
    attributes = [
        _attribute_row(oids[table.name], place, column.name, wire.oid, wire.modifier, not column.nullable)
        for table in catalog.tables
        for place, column in enumerate(table.columns, 1)
        for wire in (column_of(column.name, column.type),)
    ]
    attributes += [
        _attribute_row(each.oid + _INDEXES, 1, each.column.name, oid_of(each.column.type), -1, False) for each in unique
    ]
    own = [SystemTable("pg_catalog", "pg_class", _CLASS), SystemTable("pg_catalog", "pg_attribute", _ATTRIBUTE)]
    dynamic = [SystemTable("tacit", name, _columns(words)) for name, words in DYNAMIC.items()]
    for each in (*made, *own, *dynamic):
        oid = system.get((each.schema, each.name)) or _KNOWN[each.name]
        kind = "r" if each.schema == "pg_catalog" else "v"
        classes.append(_class_row(oid, each.name, spaces[each.schema], kind, len(each.columns), False))
        attributes += [
            _attribute_row(oid, place, name, _OF_WORDS[words], -1, False)
            for place, (name, words) in enumerate(each.columns, 1)
        ]
    yield SystemTable("pg_catalog", "pg_class", _CLASS, classes)
    yield SystemTable("pg_catalog", "pg_attribute", _ATTRIBUTE, attributes)


_OF_WORDS: Final = {
    "BIGINT": 20, "SMALLINT": 21, "INTEGER": 23, "VARCHAR": 25, "BOOLEAN": 16, "FLOAT": 700, "SMALLINT[]": 1005,
    "VARCHAR[]": 1009, "UINTEGER": 26, "UINTEGER[]": 1028, "TIMESTAMPTZ": 1184,
}  # fmt: skip


def _class_row(
    oid: int, name: str, space: int, kind: str, columns: int, keyed: bool, indexed: bool = False
) -> tuple[Any, ...]:
    return (
        oid, name, space, 0, 0, _OWNER, 2 if kind == "r" else 403 if kind == "i" else 0, oid, 0, 0, -1.0, 0, 0, indexed, False, "p", kind, columns,
        0, False, keyed, False, False, False, True, "d", False, 0, 0, 0, None, None, None, False,
    )  # fmt: skip


def _attribute_row(table: int, place: int, name: str, oid: int, modifier: int, needed: bool) -> tuple[Any, ...]:
    size = TYPES[oid].size if oid in TYPES else -1
    collation = 100 if oid in TYPES and TYPES[oid].category == "S" else 0
    return (
        table, name, oid, -1, size, place, 1 if oid in ARRAYS else 0, -1, modifier, 0 < size <= 8, "i",
        "p" if size > 0 else "x", "", needed, False, False, "", "", False, True, 0, collation, None, None, None, None,
    )  # fmt: skip


def _information(catalog: Catalog, database: str, constraints: list[_Constraint]) -> Iterator[SystemTable]:
    def table(name: str, words: str, rows: Sequence[Sequence[Any]]) -> SystemTable:
        return SystemTable("information_schema", name, _columns(words), rows)

    yield table(
        "schemata",
        "catalog_name name, schema_name name, schema_owner name",
        [(database, name, "tacit") for name in ("public", "pg_catalog", "information_schema", "tacit")],
    )
    yield table(
        "tables",
        "table_catalog name, table_schema name, table_name name, table_type text, is_insertable_into text, is_typed text",
        [(database, "public", each.name, "BASE TABLE", "NO", "NO") for each in catalog.tables],
    )
    yield table(
        "columns",
        "table_catalog name, table_schema name, table_name name, column_name name, ordinal_position int4, "
        "column_default text, is_nullable text, data_type text, character_maximum_length int4, "
        "character_octet_length int4, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, "
        "datetime_precision int4, interval_type text, udt_catalog name, udt_schema name, udt_name name, "
        "is_identity text, is_generated text, is_updatable text, collation_name name, domain_name name",
        [
            _information_row(database, each, place, column)
            for each in catalog.tables
            for place, column in enumerate(each.columns, 1)
        ],
    )
    kinds = {"u": "UNIQUE", "f": "FOREIGN KEY"}
    about = "constraint_catalog name, constraint_schema name, constraint_name name, "
    where = "table_catalog name, table_schema name, table_name name, "
    here = (database, "public")
    yield table(
        "table_constraints",
        about + where + "constraint_type text, is_deferrable text, initially_deferred text, enforced text",
        [(*here, c.name, *here, c.table.name, kinds[c.kind], "NO", "NO", "YES") for c in constraints],
    )
    yield table(
        "key_column_usage",
        about + where + "column_name name, ordinal_position int4, position_in_unique_constraint int4",
        [
            (*here, c.name, *here, c.table.name, c.column.name, 1, 1 if c.target is not None else None)
            for c in constraints
        ],
    )
    yield table(
        "constraint_column_usage",
        where + "column_name name, " + about.rstrip(", "),
        [
            (*here, (c.target or c.table).name, (c.references or c.column).name, *here, c.name)
            for c in constraints
        ],
    )  # fmt: skip
    yield table(
        "referential_constraints",
        about + "unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name name, "
        "match_option text, update_rule text, delete_rule text",
        [
            (*here, c.name, *here, f"{c.target.name}_{c.references.name}_key", "NONE", "NO ACTION", "NO ACTION")
            for c in constraints
            if c.target is not None and c.references is not None
        ],
    )
    yield table(
        "table_privileges",
        "grantor name, grantee name, " + where + "privilege_type text, is_grantable text, with_hierarchy text",
        [("tacit", "PUBLIC", *here, each.name, "SELECT", "NO", "NO") for each in catalog.tables],
    )


def _information_row(database: str, table: Table, place: int, column: Column) -> tuple[Any, ...]:
    kind = TYPES[oid_of(column.type)]
    digits = {"int8": (64, 2, 0), "numeric": (18, 10, column.type.scale), "float8": (53, 2, None)}
    precision, radix, scale = digits.get(kind.name, (None, None, None))
    moment = 6 if kind.name == "timestamp" else 0 if kind.name == "date" else None
    return (
        database, "public", table.name, column.name, place, None, "YES" if column.nullable else "NO", kind.shown, None,
        2**30 if kind.name == "text" else None, precision, radix, scale, moment, None, database, "pg_catalog", kind.name,
        "NO", "NEVER", "NO", None, None,
    )  # fmt: skip


def _tacit(catalog: Catalog) -> Iterator[SystemTable]:
    yield SystemTable(
        "tacit",
        "tables",
        _columns("name text, public bool, population text, unit text, max_groups int8, max_rows int8"),
        [
            (
                t.name,
                t.public,
                t.population,
                t.unit,
                # AUTO has none until a query finds it.
                *(None if t.public or isinstance(n, str) else n for n in (t.max_groups, t.max_rows)),
            )
            for t in catalog.tables
        ],
    )
    yield SystemTable(
        "tacit",
        "columns",
        _columns("table_name text, name text, type text, low text, high text, categories text[], nullable bool"),
        [
            (
                t.name, c.name, str(c.type), *(map(str, c.bounds) if c.bounds is not None else (None, None)),
                None if c.categories is None else [None if v is None else str(v) for v in c.categories], c.nullable,
            )
            for t in catalog.tables
            for c in t.columns
        ],
    )  # fmt: skip
