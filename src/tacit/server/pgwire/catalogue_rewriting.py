"""Queries about the catalogue, rewritten from PostgreSQL's dialect to DuckDB's: what is on no list is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.query import limits
from tacit.server.pgwire.sqlstates import StatementFault
from tacit.server.pgwire.statements import literal_of
from tacit.server.pgwire.system_tables import DYNAMIC, EMPTY
from tacit.server.pgwire.types import TYPES

if TYPE_CHECKING:
    from sqlglot import exp

    from tacit.server.pgwire.system_catalog import SystemCatalog

#: Functions of PostgreSQL as macros; names of others that DuckDB has are in ``SAME``.
MACROS: Final = {
    "format_type(t, m)": """
        CASE WHEN t IS NULL THEN NULL ELSE coalesce((SELECT CASE
            WHEN x_elem > 0 THEN x_shown || '[]'
            WHEN x_name = 'numeric' AND m > 0 THEN
                'numeric(' || (((m - 4) >> 16) & 65535) || ',' || ((m - 4) & 65535) || ')'
            ELSE x_shown END
            FROM pgc.x_type WHERE x_oid = t), '???') END""",
    "regclass_name(o)": "coalesce((SELECT x_name FROM pgc.x_class WHERE x_oid = o), CAST(o AS VARCHAR))",
    "regtype_name(o)": "tacit_format_type(o, NULL)",
    "pg_get_userbyid(o)": "coalesce((SELECT x_name FROM pgc.x_role WHERE x_oid = o), 'unknown')",
    "obj_description(o, c := 'pg_class')": "(SELECT x_words FROM pgc.x_description WHERE x_object = o AND x_part = 0 AND "
    "c = 'pg_class')",
    "col_description(o, n)": "(SELECT x_words FROM pgc.x_description WHERE x_object = o AND x_part = n)",
    "pg_get_constraintdef(o, p := false)": "(SELECT x_words FROM pgc.x_constraint WHERE x_oid = o)",
    "pg_get_expr(e, r, p := false)": "CAST(NULL AS VARCHAR)",
    "pg_get_indexdef(i, n := 0, p := false)": "(SELECT CASE WHEN n = 0 THEN x_words ELSE x_column END FROM pgc.x_index WHERE x_oid = i)",
    "pg_get_viewdef(v, p := false)": "CAST(NULL AS VARCHAR)",
    "pg_get_serial_sequence(t, c)": "CAST(NULL AS VARCHAR)",
    "pg_get_partkeydef(t)": "CAST(NULL AS VARCHAR)",
    "pg_get_triggerdef(t, p := false)": "CAST(NULL AS VARCHAR)",
    "pg_get_ruledef(t, p := false)": "CAST(NULL AS VARCHAR)",
    "pg_get_function_identity_arguments(f)": "CAST(NULL AS VARCHAR)",
    "pg_get_function_arguments(f)": "CAST(NULL AS VARCHAR)",
    "pg_get_function_result(f)": "CAST(NULL AS VARCHAR)",
    "pg_get_functiondef(f)": "CAST(NULL AS VARCHAR)",
    "pg_get_statisticsobjdef_columns(f)": "CAST(NULL AS VARCHAR)",
    "pg_relation_is_publishable(o)": "false",
    "pg_table_is_visible(o)": "coalesce((SELECT x_space IN (2200, 11) FROM pgc.x_class WHERE x_oid = o), false)",
    "pg_type_is_visible(o)": "o IN (SELECT x_oid FROM pgc.x_type)",
    "pg_statistics_obj_is_visible(o)": "false",
    "pg_is_in_recovery()": "false",
    "pg_encoding_to_char(e)": "CASE WHEN e = 6 THEN 'UTF8' ELSE '' END",
    "pg_char_to_encoding(e)": "CASE WHEN upper(e) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END",
    "pg_client_encoding()": "'UTF8'",
    "pg_tablespace_location(o)": "''",
    "pg_total_relation_size(o)": "CAST(NULL AS BIGINT)",
    "pg_relation_size(o)": "CAST(NULL AS BIGINT)",
    "pg_table_size(o)": "CAST(NULL AS BIGINT)",
    "pg_database_size(o)": "CAST(NULL AS BIGINT)",
    "pg_backend_pid()": "0",
    "aclexplode(a)": "unnest(CAST([] AS STRUCT(grantor UINTEGER, grantee UINTEGER, privilege_type VARCHAR, is_grantable BOOLEAN)[]))",
    "pg_advisory_unlock_all()": "CAST(NULL AS VARCHAR)",
    "pg_partition_ancestors(o)": "CAST(o AS BIGINT)",
    "has_table_privilege(a, b, c := '')": "position('SELECT' IN upper(CASE WHEN c = '' THEN CAST(b AS VARCHAR) ELSE c END)) > 0",
    "has_any_column_privilege(a, b, c := '')": "position('SELECT' IN upper(CASE WHEN c = '' THEN CAST(b AS VARCHAR) ELSE c END)) > 0",
    "has_type_privilege(a, b, c := '')": "true",
    "pg_has_role(a, b, c := '')": "CAST(a AS VARCHAR) = CAST(b AS VARCHAR) OR c = ''",
    "quote_ident(t)": "CASE WHEN regexp_matches(t, '^[a-z_][a-z0-9_]*$') THEN t "
    "ELSE '\"' || replace(t, '\"', '\"\"') || '\"' END",
    "quote_literal(t)": "'''' || replace(CAST(t AS VARCHAR), '''', '''''') || ''''",
    "array_to_string(a, s, n := NULL)": "list_aggregate(a, 'string_agg', s)",
    "array_length(a, d)": "CASE WHEN len(a) = 0 THEN NULL ELSE len(a) END",
    "array_upper(a, d)": "CASE WHEN len(a) = 0 THEN NULL ELSE len(a) END",
    "array_lower(a, d)": "CASE WHEN len(a) = 0 THEN NULL ELSE 1 END",
    "cardinality(a)": "len(a)",
    # A text that a query makes longer is refused beyond a length, and not cut.
    "bounded(t, n)": "CASE WHEN length(CAST(t AS VARCHAR)) > n THEN error('too long') ELSE CAST(t AS VARCHAR) END",
    "list_text(a)": "'{' || array_to_string(list_transform(a, lambda e: CASE WHEN e IS NULL THEN 'NULL' "
    "WHEN regexp_matches(CAST(e AS VARCHAR), '[{},\"\\\\\\s]|^$|^(?i:null)$') THEN '\"' || "
    "replace(replace(CAST(e AS VARCHAR), '\\', '\\\\'), '\"', '\\\"') || '\"' ELSE CAST(e AS VARCHAR) END), ',') || '}'",
    "_pg_expandarray(a)": "unnest(list_transform(a, lambda v, i: {'x': v, 'n': i}))",
    "to_regclass(t)": "(SELECT max(x_oid) FROM pgc.x_class WHERE x_name = regexp_replace(t, '^.*[.]', ''))",
    "regexp_split_to_array(s, p)": "string_split_regex(s, p)",
    "to_regtype(t)": "(SELECT max(x_oid) FROM pgc.x_type WHERE x_name = t)",
}  # fmt: skip
SAME: Final = frozenset(
    {"unnest", "generate_series", "generate_subscripts", "row_number", "rank", "string_agg", "array_agg", "bool_or",
     "bool_and", "starts_with", "left", "right", "md5", "split_part", "strpos", "btrim", "ltrim",
     "rtrim", "trim", "translate", "char_length", "octet_length", "array_append",
     "jsonb_build_object", "json_build_object", "json_agg", "jsonb_agg", "now", "chr", "concat", "row_to_json", "ascii", "initcap", "mod", "any_value",
     # Functions of PostgreSQL's catalogue that DuckDB has as well.
     "shobj_description", "pg_function_is_visible", "pg_operator_is_visible", "pg_collation_is_visible",
     "pg_opclass_is_visible", "pg_opfamily_is_visible", "pg_conversion_is_visible", "pg_ts_config_is_visible",
     "pg_ts_dict_is_visible", "pg_is_other_temp_schema", "pg_my_temp_schema", "pg_size_pretty",
     "has_schema_privilege", "has_column_privilege", "has_database_privilege", "has_function_privilege",
     "has_sequence_privilege", "has_tablespace_privilege", "has_server_privilege", "has_language_privilege",
     "has_foreign_data_wrapper_privilege", "array_position", "regexp_split_to_table", "inet_server_addr",
     "inet_server_port", "inet_client_addr"}
)  # fmt: skip
#: Functions that sqlglot knows by a class of their own.
CLASSES: Final = frozenset(
    ["Abs", "And", "Any", "Array", "ArrayAgg", "ArrayContains", "ArrayContainsAll", "ArrayLength", "ArraySize", "ArrayToString", "Case", "Cast", "Ceil", "Chr", "Coalesce", "Concat", "ConcatWs", "Count", "CurrentCatalog", "CurrentDate", "CurrentRole", "CurrentSchema", "CurrentSchemas", "CurrentTimestamp", "CurrentUser", "Exists", "Explode", "ExplodingGenerateSeries", "Extract", "First", "Floor", "GenerateSeries", "Greatest", "GroupConcat", "If", "Initcap", "JSONArrayAgg", "JSONObject", "JSONBObject", "Least", "Left", "Length", "Localtime", "Localtimestamp", "LogicalAnd", "LogicalOr", "Lower", "LTrim", "MD5", "Max", "Min", "Not", "Nullif", "Or", "Posexplode", "Quarter", "Rank", "RegexpILike", "RegexpLike", "RegexpReplace", "RegexpSplit", "Replace", "Right", "Round", "RowNumber", "SessionUser", "Sign", "Split", "SplitPart", "StartsWith", "StrPosition", "StrToTime", "Substring", "Sum", "ToChar", "Transform", "Trim", "TryCast", "Unnest", "Upper", "CurrentVersion", "CurrentSession", "Collate", "CurrentDatabase", "DenseRank", "Avg", "StringToArray", "Lag", "Lead", "Xor", "Exp", "Sqrt", "ArrayPosition", "AnyValue"]
)  # fmt: skip


#: Schemas of the system, and their names in DuckDB.
SCHEMAS: Final = {"pg_catalog": "pgc", "information_schema": "pgi", "tacit": "pgt"}
#: Characters of a text that a query may lengthen, and numbers of a series: DuckDB's limit on memory does not count texts.
_LONGEST: Final = 10_000
_LONGEST_WORD: Final = 200
#: Before the names of parts of a query.
_PART: Final = "tacit part "
_REG: Final = frozenset({"regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "regoper"})
_WORDS: Final = {"oid": "UINTEGER", "name": "VARCHAR", "char": "VARCHAR", "xid": "BIGINT", "cstring": "VARCHAR",
                 "int2vector": "SMALLINT[]", "oidvector": "UINTEGER[]", "information_schema.sql_identifier": "VARCHAR",
                 "sql_identifier": "VARCHAR", "character_data": "VARCHAR", "cardinal_number": "INTEGER",
                 "yes_or_no": "VARCHAR", "aclitem": "VARCHAR", "pg_node_tree": "VARCHAR", "anyarray": "VARCHAR[]"}  # fmt: skip
_PLAIN: Final = {"int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "text": "VARCHAR", "bool": "BOOLEAN",
                 "float4": "FLOAT", "float8": "DOUBLE", "varchar": "VARCHAR", "bpchar": "VARCHAR",
                 "numeric": "DECIMAL(18, 3)", "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ",
                 "json": "VARCHAR", "jsonb": "VARCHAR"}  # fmt: skip
#: Columns of lists that PostgreSQL writes without braces.
_VECTORS: Final = frozenset({"indkey", "indclass", "indcollation", "proargtypes", "tgattr", "partattrs", "partclass"})
#: Types that no column has.
_PSEUDO: Final = {"trigger": 2279, "event_trigger": 3838, "void": 2278, "record": 2249, "internal": 2281, "any": 2276}


class CatalogueRewriting:
    """One query, from PostgreSQL's dialect to DuckDB's."""

    def __init__(
        self,
        catalog: SystemCatalog,
        user: str,
        values: Sequence[Any],
        types: Sequence[int],
        settings: Callable[[str], str],
        dynamic: Mapping[str, Callable[[], Sequence[Sequence[Any]]]],
    ) -> None:
        self._catalog = catalog
        self._user = user
        self._constants = catalog.constants(user)
        self._values, self._types = values, types
        self._settings = settings
        self._dynamic = dynamic
        self._characters = 0
        self.lasting = True
        self.changes: list[tuple[str, str, bool]] = []

    def tree(self, tree: exp.Expr) -> exp.Expr:
        """The query that DuckDB answers.

        Raises:
            StatementFault, Refusal: it cannot be answered.
        """
        from sqlglot import exp

        if not isinstance(tree, exp.Query):
            raise StatementFault("0A000", "only queries of the catalogue are answered")
        if tree.find(exp.Into, exp.Lock):
            raise StatementFault("0A000", "nothing can be written")
        _without_recursion(tree)
        self._rename_parts(tree)
        for call in list(tree.find_all(exp.Anonymous, exp.Func)):
            self._check_function(call)
        _name_columns(tree)
        tables = {table.alias_or_name.lower(): table.name for table in tree.find_all(exp.Table)}
        for column in [each for each in tree.find_all(exp.Column) if each.name.lower() == "tableoid"]:
            found = self._catalog.oid_of_class(tables.get(column.table.lower(), ""))
            if found is None:
                raise StatementFault("42703", "tableoid needs the name of its table in front")
            column.replace(_oid(found))
        # Children first, so that a node is rewritten when its parts are.
        for node in reversed(list(tree.walk())):
            changed = self._node(node)
            if changed is not node:
                node.replace(changed)
        for table in list(tree.find_all(exp.Table)):
            self._relation(table)
        return tree

    def _rename_parts(self, tree: exp.Expr) -> None:
        """Give the parts that WITH names names that nothing in DuckDB has.

        A name counts within its own query alone; elsewhere DuckDB would find a table of its own by it.
        """
        from sqlglot import exp

        parts = list(tree.find_all(exp.CTE))
        named = {each.alias.lower() for each in parts}
        for table in tree.find_all(exp.Table):
            if table.name.lower() in named and not table.db and not isinstance(table.this, exp.Func):
                if not table.alias:
                    table.set("alias", exp.TableAlias(this=table.this.copy()))
                table.set("this", exp.to_identifier(_PART + table.name.lower(), quoted=True))
        for each in parts:
            each.args["alias"].set("this", exp.to_identifier(_PART + each.alias.lower(), quoted=True))

    def _check_function(self, node: exp.Expr) -> None:
        from sqlglot import exp

        kind = type(node).__name__
        if isinstance(node, exp.Anonymous):
            name = str(node.this).lower()
            known = name in _NAMES or name in SAME or name in self._constants
            if not known and name not in ("current_setting", "set_config", "current_schemas", *_RELATIONS):
                raise StatementFault("42883", f"the catalogue has no function {name[:63]}")
        elif kind not in CLASSES:
            raise StatementFault("42883", f"the catalogue has no function {kind}")

    def _node(self, node: exp.Expr) -> exp.Expr:
        from sqlglot import exp

        match node:
            case exp.Parameter():
                place = int(node.name) - 1 if node.name.isdigit() else -1
                if not 0 <= place < len(self._values):
                    raise StatementFault("42P02", "there is no parameter of that number")
                found = literal_of(self._values[place], self._types[place])
                self._characters += len(str(self._values[place]))
                if self._characters > limits.MAX_CHARACTERS:
                    raise StatementFault("54000", "the query has too many characters with its parameters")
                return found
            case exp.Dot() if isinstance(node.this, exp.Identifier) and node.this.name in SCHEMAS:
                # A function or a type, with the schema in front.
                inside: exp.Expr = node.expression
                return inside
            case exp.Operator():
                return self._operator(node)
            case exp.Collate():
                collated: exp.Expr = node.this
                return collated
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.Anonymous():
                return self._call(node)
            case exp.ArrayToString():
                words = [node.this, node.expression, *([node.args["null"]] if node.args.get("null") else [])]
                return exp.Anonymous(this="tacit_array_to_string", expressions=words[:2])
            case exp.CurrentSchemas():
                return _schemas(node.this)
            case exp.Any():
                return _any(node)
            case exp.Substring() if isinstance(node.args.get("start"), exp.Literal) and node.args["start"].is_string:
                # substring(text FROM pattern)
                found = exp.Anonymous(this="regexp_extract", expressions=[node.this, node.args["start"], "1"])
                return exp.Nullif(this=found, expression=exp.Literal.string(""))
            case exp.ArraySize():
                return exp.Anonymous(this="tacit_array_length", expressions=[node.this, exp.Literal.number(1)])
            case exp.DPipe() | exp.Concat() | exp.ConcatWs() | exp.Replace() | exp.RegexpReplace():
                return self._shortened(node)
            case exp.GenerateSeries():
                end = node.args.get("end")
                if isinstance(end, exp.Literal) and (not end.name.isdigit() or int(end.name) > _LONGEST):
                    raise StatementFault(
                        "54000", f"a series in a query of the catalogue has at most {_LONGEST} numbers"
                    )
                return node
            case _:
                kind = type(node).__name__
                known = {
                    "CurrentUser": "current_user", "SessionUser": "session_user", "CurrentRole": "current_user",
                    "CurrentSchema": "current_schema", "CurrentCatalog": "current_database",
                    "CurrentDatabase": "current_database", "CurrentVersion": "version",
                }.get(kind)  # fmt: skip
                if known is not None:
                    return exp.Literal.string(self._constants[known])
                if isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate)):
                    self.lasting = False
                return self._column(node) if isinstance(node, exp.Column) else node

    def _column(self, node: exp.Column) -> exp.Expr:
        from sqlglot import exp

        name = node.name.lower()
        if not node.args.get("table") and not node.this.quoted and name in ("current_user", "user", "session_user"):
            return exp.Literal.string(self._constants[name])
        # pg_catalog.pg_class.relname is a column of a table with its schema in front.
        if node.args.get("db"):
            node.set("db", None)
            node.set("catalog", None)
        return node

    def _shortened(self, node: exp.Expr) -> exp.Expr:
        """The same with bounded texts to join or to replace in, so that no chain of them grows without end.

        DuckDB's limit on memory does not count texts.
        """
        from sqlglot import exp

        parts = list(node.iter_expressions())
        if any(isinstance(part, exp.Array) for part in parts):
            # Lists are joined, as psql does with options of tables.
            return node
        many = isinstance(node, (exp.Replace, exp.RegexpReplace))
        for place, part in enumerate(parts):
            # Each place that is found gets the whole of what replaces it.
            longest = _LONGEST_WORD if many and place else _LONGEST
            if not isinstance(part, exp.Literal) or len(part.name) > longest:
                bound = exp.Literal.number(longest)
                part.replace(exp.Anonymous(this="tacit_bounded", expressions=[part.copy(), bound]))
        return node

    def _operator(self, node: exp.Operator) -> exp.Expr:
        from sqlglot import exp

        sign = str(node.args["operator"]).rpartition(".")[2]
        left, right = node.this, node.expression
        right = right.this if isinstance(right, exp.Collate) else right
        kinds: dict[str, type[exp.Expr]] = {
            "~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, ">": exp.GT,
            "~~": exp.Like, "+": exp.Add, "||": exp.DPipe,
        }  # fmt: skip
        if sign in kinds:
            return kinds[sign](this=left, expression=right)
        if sign in ("!~", "!~*", "!~~"):
            return exp.Not(this=exp.Paren(this=kinds[sign[1:]](this=left, expression=right)))
        raise StatementFault("42883", "the catalogue does not know this operator")

    def _cast(self, node: exp.Cast | exp.TryCast) -> exp.Expr:
        from sqlglot import exp

        name = node.to.sql("postgres").lower().replace('"', "")
        array = name.endswith("[]")
        bare = name.removesuffix("[]").removeprefix("pg_catalog.").removeprefix("information_schema.").partition("(")[0]
        if bare in _REG:
            return self._reg(bare, node.this)
        if isinstance(node.this, exp.Column) and node.to.is_type(*exp.DataType.TEXT_TYPES, "name"):
            # The text of a list is not DuckDB's.
            column = node.this.name.lower()
            if column in _VECTORS:
                return exp.Anonymous(this="tacit_array_to_string", expressions=[node.this, exp.Literal.string(" ")])
            if column in self._catalog.lists:
                return exp.Anonymous(this="tacit_list_text", expressions=[node.this])
        words = _WORDS.get(bare) or ("." in name and _PLAIN.get(bare))
        if words:
            words += "[]" if array else ""
            return exp.Cast(this=node.this, to=exp.DataType.build(words, dialect="duckdb"))
        return node

    def _reg(self, kind: str, value: exp.Expr) -> exp.Expr:
        from sqlglot import exp

        if kind == "regclass":
            if isinstance(value, exp.Literal):
                found = self._catalog.oid_of_class(value.name)
                if found is None:
                    raise StatementFault("42P01", "there is no table of that name")
                return _oid(found)
            return exp.Anonymous(this="tacit_regclass_name", expressions=[value])
        if kind == "regtype":
            if isinstance(value, exp.Literal) and not value.name.isdigit():
                name = value.name.rpartition(".")[2]
                found = next((e.oid for e in TYPES.values() if name in (e.name, e.shown)), _PSEUDO.get(name))
                if found is None:
                    raise StatementFault("42704", "there is no type of that name")
                return _oid(found)
            return exp.Anonymous(this="tacit_regtype_name", expressions=[value])
        if kind == "regnamespace":
            spaces = {"public": 2200, "pg_catalog": 11, "information_schema": 13200, "tacit": 16383}
            if isinstance(value, exp.Literal) and value.name in spaces:
                return _oid(spaces[value.name])
        if kind != "regrole" and isinstance(value, exp.Literal):
            raise StatementFault("42883", "there is no function of that name")
        return exp.Cast(this=value, to=exp.DataType.build("VARCHAR"))

    def _call(self, node: exp.Anonymous) -> exp.Expr:
        from sqlglot import exp

        name = str(node.this).lower()
        if name in self._constants and not node.expressions:
            return exp.Literal.string(self._constants[name])
        if name == "current_schemas":
            return _schemas(node.expressions[0] if node.expressions else None)
        if name in ("current_setting", "set_config"):
            self.lasting = False
            more = [_bare(each) for each in node.expressions]
            first = more.pop(0) if more else None
            if not isinstance(first, exp.Literal):
                raise StatementFault("0A000", f"{name} is not supported here; write SET or SHOW")
            if name == "current_setting":
                return self._setting(
                    first.name, missing_ok=bool(more and isinstance(more[0], exp.Boolean) and more[0].this)
                )
            if len(more) != 2 or not isinstance(more[0], exp.Literal) or not isinstance(more[1], exp.Boolean):
                raise StatementFault("0A000", "set_config is not supported here; write SET or SHOW")
            self.changes.append((first.name, more[0].name, bool(more[1].this)))
            return exp.Literal.string(more[0].name)
        if name in _NAMES:
            return exp.Anonymous(this=f"tacit_{name}", expressions=node.expressions)
        if name == "row_to_json":
            return exp.Anonymous(this="to_json", expressions=node.expressions)
        if name in ("json_build_object", "jsonb_build_object"):
            return exp.Anonymous(this="json_object", expressions=node.expressions)
        if name == "now":
            self.lasting = False
        return node

    def _setting(self, name: str, *, missing_ok: bool) -> exp.Expr:
        from sqlglot import exp

        try:
            return exp.Literal.string(self._settings(name))
        except InputError as problem:
            if missing_ok:
                return exp.cast(exp.Null(), "VARCHAR", dialect="duckdb")
            raise StatementFault("42704", str(problem)) from None

    def _relation(self, table: exp.Table) -> None:
        from sqlglot import exp

        if isinstance(table.this, exp.Func):
            called = str(table.this.this).lower() if isinstance(table.this, exp.Anonymous) else ""
            if called == "pg_show_all_settings":
                table.replace(self._values_of(_SETTINGS, self._setting_rows(), table))
                return
            if called == "pg_available_extensions":
                table.replace(exp.to_table("pgc.pg_available_extensions", alias=table.alias or called))
                return
            if called == "tacit_aclexplode":
                # No table has a list of rights.
                table.replace(self._values_of(_RIGHTS, (), table))
                return
            if called == "pg_get_keywords":
                alias = table.alias or called
                table.replace(exp.to_table("pgc.x_keywords", alias=alias))
                return
            if type(table.this).__name__ not in ("Unnest", "GenerateSeries", "ExplodingGenerateSeries", "Explode"):
                name = str(table.this.this).lower() if isinstance(table.this, exp.Anonymous) else table.this.key
                if name.removeprefix("tacit_") in _NAMES:
                    table.replace(_one_row(table))
                    return
                if name not in SAME:
                    raise StatementFault("42883", f"the catalogue has no function {name[:63]} of rows")
            table.set("db", None)
            return
        name, schema = table.name.lower(), table.db.lower()
        if not schema and name.startswith(_PART):
            return
        schema = schema or ("pg_catalog" if name.startswith("pg_") else "public")
        if not self._catalog.has(schema, name):
            if schema == "pg_catalog" and name == "pg_settings":
                table.replace(self._values_of(_SETTINGS, self._setting_rows(), table))
                return
            raise StatementFault(
                "42P01",
                f"the catalogue has no table {schema}.{name}"[:200],
                "A query of the catalogue cannot read declared tables as well; ask two.",
            )
        if schema == "tacit" and name in DYNAMIC:
            self.lasting = False
            table.replace(self._values_of(DYNAMIC[name], self._dynamic[name](), table))
            return
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        table.set("db", exp.to_identifier(SCHEMAS[schema]))
        table.set("catalog", None)
        column = {"pg_roles": "rolname", "pg_user": "usename"}.get(name)
        if column is not None:
            # The one user there is for a person has an empty name in the table.
            alias, named = table.alias, exp.Literal.string(self._user).sql("duckdb")
            rows = (
                f"SELECT * REPLACE (CASE {column} WHEN '' THEN {named} ELSE {column} END AS {column}) FROM pgc.{name}"
            )
            inner: exp.Expr = exp.maybe_parse(rows, dialect="duckdb")
            table.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias))))

    def _setting_rows(self) -> list[tuple[Any, ...]]:
        self.lasting = False
        names = ("server_version", "server_version_num", "search_path", "client_encoding", "bytea_output",
                 "max_identifier_length", "standard_conforming_strings", "timezone", "transaction_isolation",
                 "default_transaction_isolation", "integer_datetimes", "server_encoding", "datestyle",
                 "client_min_messages", "lock_timeout", "statement_timeout", "row_security", "max_index_keys")  # fmt: skip
        about = None, "Client Connection Defaults", "", None, "user", "string", "default", None, None
        return [(name, value := self._settings(name), *about, value, value, False) for name in names]

    def _values_of(self, words: str, rows: Sequence[Sequence[Any]], table: exp.Table) -> exp.Expr:
        """A relation with these rows in the place of a table."""
        from sqlglot import exp

        names, kinds = zip(*(part.split() for part in words.split(",")), strict=True)
        types = {"text": "VARCHAR", "int8": "BIGINT", "bool": "BOOLEAN"}
        alias = table.alias or table.name or "pg_settings"
        several = [
            exp.select(
                *(
                    exp.alias_(exp.cast(literal_of(value, 0), types[kind], dialect="duckdb"), name, quoted=True)
                    for value, name, kind in zip(row, names, kinds, strict=True)
                )
            )
            for row in (rows or [[None] * len(names)])
        ]
        if not rows:
            several[0] = several[0].where(exp.false())
        whole: exp.Query = several[0]
        for each in several[1:]:
            whole = exp.Union(this=whole, expression=each, distinct=False)
        return exp.Subquery(this=whole, alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _without_recursion(tree: exp.Expr) -> None:
    """Take off recursion along a table that has no rows, such as memberships of roles: it adds nothing.

    DuckDB has no recursion in a subquery that names columns from outside, as tools write it for each role.
    """
    from sqlglot import exp

    for found in tree.find_all(exp.With):
        if not found.args.get("recursive"):
            continue
        for each in found.expressions:
            if isinstance(each.this, exp.Union) and isinstance(each.this.expression, exp.Select):
                step = each.this.expression
                inner = [join.this for join in step.args.get("joins") or () if not join.side]
                if any(isinstance(table, exp.Table) and table.name.lower() in EMPTY for table in inner):
                    each.set("this", each.this.this)
        if not any(isinstance(each.this, exp.Union) for each in found.expressions):
            found.set("recursive", False)


def _oid(number: int) -> exp.Expr:
    from sqlglot import exp

    return exp.Cast(this=exp.Literal.number(number), to=exp.DataType.build("UINTEGER", dialect="duckdb"))


def _bare(node: exp.Expr) -> exp.Expr:
    """An argument without the casts around it."""
    from sqlglot import exp

    while isinstance(node, exp.Cast):
        node = node.this
    return node


def _any(node: exp.Any) -> exp.Expr:
    """``ANY('{r,v}')``, as drivers write a list that has no type, with the list; ``ANY(ARRAY(SELECT …))`` without it."""
    from sqlglot import exp

    held = node.this.this if isinstance(node.this, exp.Paren) else node.this
    if isinstance(held, exp.Array) and len(held.expressions) == 1 and isinstance(held.expressions[0], exp.Query):
        inner = held.expressions[0]
        return exp.Any(this=inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner))
    if not isinstance(held, exp.Literal) or not held.is_string or not held.name.startswith("{"):
        return node
    parts = [part.strip().strip('"') for part in held.name.strip("{}").split(",") if part.strip()]
    make = exp.Literal.number if all(part.isdigit() for part in parts) else exp.Literal.string
    return exp.Any(this=exp.Paren(this=exp.Array(expressions=[make(part) for part in parts])))


def _schemas(system: exp.Expr | None) -> exp.Expr:
    """The schemas that names are looked up in, with those of the system where that is asked for."""
    from sqlglot import exp

    names = ["pg_catalog"] if isinstance(system, exp.Boolean) and system.this else []
    return exp.Array(expressions=[exp.Literal.string(each) for each in (*names, "public")])


def _one_row(table: exp.Table) -> exp.Expr:
    """The one value of a function in the place of a table, and its number where the query names it."""
    from sqlglot import exp

    alias = table.args.get("alias")
    columns = [each.name for each in alias.columns] if alias is not None else []
    name = columns[0] if columns else alias.name if alias is not None else "value"
    values = [exp.alias_(table.this.copy(), name), *(exp.alias_("1", each) for each in columns[1:])]
    held = exp.TableAlias(this=exp.to_identifier(table.alias or name))
    return exp.Subquery(this=exp.select(*values), alias=held)


def _name_columns(tree: exp.Query) -> None:
    """Name the columns of a query as PostgreSQL does, before functions are rewritten."""
    from sqlglot import exp

    select = tree
    while isinstance(select, (exp.SetOperation, exp.Subquery)):
        select = select.this
    if not isinstance(select, exp.Select):
        return
    named = [_named(each) for each in select.expressions]
    select.set("expressions", named)


def _named(node: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    if isinstance(node, exp.Alias):
        # Names without quotes are in small letters.
        held = node.args["alias"]
        if isinstance(held, exp.Identifier) and not held.quoted:
            held.set("this", held.name.lower())
        return node
    if isinstance(node, (exp.Star, exp.Column)) or node.is_star:
        return node
    inner = node
    while isinstance(inner, (exp.Paren, exp.Collate)) or (isinstance(inner, exp.Dot) and inner.this.name in SCHEMAS):
        inner = inner.expression if isinstance(inner, exp.Dot) else inner.this
    if isinstance(inner, exp.Cast):
        below = inner.this.expression if isinstance(inner.this, exp.Dot) else inner.this
        if isinstance(below, exp.Column):
            name = below.name
        elif isinstance(below, exp.Anonymous):
            name = str(below.this).lower()
        else:
            name = inner.to.sql("postgres").lower().rpartition(".")[2]
    elif isinstance(inner, exp.Anonymous):
        name = str(inner.this).lower()
    elif isinstance(inner, exp.Case):
        name = "case"
    elif isinstance(inner, exp.Exists):
        name = "exists"
    elif isinstance(inner, exp.Array):
        name = "array"
    elif isinstance(inner, exp.CurrentVersion):
        name = "version"
    elif isinstance(inner, exp.Func) and not isinstance(inner, (exp.Binary, exp.Connector)):
        name = inner.sql_name().lower()
        name = {"current_catalog": "current_database"}.get(name, name)
    else:
        name = "?column?"
    return exp.alias_(node.copy(), name, quoted=True)


_NAMES: Final = frozenset(head.partition("(")[0] for head in MACROS)
#: Functions that return rows.
_RIGHTS: Final = "grantor int8, grantee int8, privilege_type text, is_grantable bool"
_RELATIONS: Final = ("pg_show_all_settings", "pg_get_keywords", "pg_available_extensions")
_SETTINGS: Final = (
    "name text, setting text, unit text, category text, short_desc text, extra_desc text, context text, vartype text, "
    "source text, min_val text, max_val text, boot_val text, reset_val text, pending_restart bool"
)
