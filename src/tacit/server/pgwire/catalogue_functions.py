"""Functions that a query about the catalogue may call: macros of the embedded database, and names of its own."""

from __future__ import annotations

from typing import Final

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
