"""Tables and functions of the system, ``pg_catalog``, ``information_schema`` and ``tacit``, filled from public metadata.

Each is a real table of an embedded DuckDB, so that any query of a tool has a true answer: a declared table is a row of
``pg_class``, a declared foreign key a row of ``pg_constraint``, and the table of a feature that Tacit lacks, such as
triggers, has no rows. Nothing in them comes from data: ``reltuples`` says "unknown", and there are no statistics.

Declared metadata is in tables of the schema ``main``, which no query can name; SQL derives all other tables from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tacit.query.catalog import Catalog
from tacit.releases.notebook import known_of, owner_of
from tacit.server.pgwire.protocol import ARRAYS, TYPES, column_of
from tacit.server.pgwire.variables import VERSION

if TYPE_CHECKING:
    import duckdb

#: Schemas of the system, and their names in DuckDB, which has tables of its own in the first two.
SCHEMAS: Final = {"pg_catalog": "pgc", "information_schema": "pgi", "tacit": "pgt"}
#: Oids below this belong to the system; tools hide objects that have them.
_FIRST: Final = 16384
_KINDS: Final = {
    "oid": "UINTEGER", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "text": "VARCHAR", "name": "VARCHAR",
    "char": "VARCHAR", "bool": "BOOLEAN", "float4": "FLOAT", "int2[]": "SMALLINT[]", "text[]": "VARCHAR[]",
    "oid[]": "UINTEGER[]", "timestamptz": "TIMESTAMPTZ",
}  # fmt: skip
#: Types of DuckDB, and those of PostgreSQL that hold their values.
DUCKDB_TYPES: Final = {
    "BOOLEAN": 16, "TINYINT": 21, "SMALLINT": 21, "INTEGER": 23, "BIGINT": 20, "UTINYINT": 21, "USMALLINT": 23,
    "UINTEGER": 26, "UINTEGER[]": 1028, "UBIGINT": 1700, "HUGEINT": 1700, "UHUGEINT": 1700, "FLOAT": 700, "DOUBLE": 701, "VARCHAR": 25,
    "DATE": 1082, "TIMESTAMP": 1114, "TIMESTAMP WITH TIME ZONE": 1184, "VARCHAR[]": 1009, "SMALLINT[]": 1005,
    "INTEGER[]": 1007, "BIGINT[]": 1016, "BOOLEAN[]": 1000,
}  # fmt: skip
_ABOUT: Final = "constraint_catalog name, constraint_schema name='public', constraint_name name"
_WHERE: Final = "table_catalog name, table_schema name='public', table_name name"
#: Tables of declared metadata: tables, columns of these and of system tables, keys, types.
_DECLARED: Final = {
    "x_class": "x_oid oid, x_name name, x_space oid=2200, x_kind char='r', x_columns int2, x_owner text, x_public bool, "
    "x_population text, x_unit text, x_groups int8, x_rows int8",
    "x_column": "x_relation oid, x_table name, x_place int2, x_column name, x_oid oid, x_modifier int4=-1, "
    "x_nullable bool=true, x_known text, x_type text, x_low text, x_high text, x_categories text[]",
    "x_constraint": "x_oid oid, x_name name, x_kind char, x_relation oid, x_table name, x_column name, x_place int2, "
    "x_target oid, x_target_table name, x_target_column name, x_target_place int2, x_text text",
    "x_duckdb": "x_kind text, x_oid oid",
    "x_type": "x_oid oid, x_name name, x_shown text, x_size int2, x_category char, x_element oid, x_array oid",
}
#: System tables, their columns, and the default values of all rows.
TABLES: Final = {
    "pgc.pg_class": "oid oid, relname name, relnamespace oid, reltype oid=0, reloftype oid=0, relowner oid=10, "
    "relam oid=0, relfilenode oid, reltablespace oid=0, relpages int4=0, reltuples float4=-1, relallvisible int4=0, "
    "reltoastrelid oid=0, relhasindex bool=false, relisshared bool=false, relpersistence char='p', relkind char, "
    "relnatts int2, relchecks int2=0, relhasrules bool=false, relhastriggers bool=false, relhassubclass bool=false, "
    "relrowsecurity bool=false, relforcerowsecurity bool=false, relispopulated bool=true, relreplident char='d', "
    "relispartition bool=false, relrewrite oid=0, relfrozenxid int4=0, relminmxid int4=0, relacl text[], "
    "reloptions text[], relpartbound text, relhasoids bool=false",
    "pgc.pg_attribute": "attrelid oid, attname name, atttypid oid, attstattarget int4=-1, attlen int2, attnum int2, "
    "attndims int4, attcacheoff int4=-1, atttypmod int4, attbyval bool, attalign char='i', attstorage char, "
    "attcompression char='', attnotnull bool, atthasdef bool=false, atthasmissing bool=false, attidentity char='', "
    "attgenerated char='', attisdropped bool=false, attislocal bool=true, attinhcount int4=0, attcollation oid, "
    "attacl text[], attoptions text[], attfdwoptions text[], attmissingval text",
    "pgc.pg_type": "oid oid, typname name, typnamespace oid=11, typowner oid=10, typlen int2, typbyval bool, "
    "typtype char, typcategory char, typispreferred bool, typisdefined bool=true, typdelim char=',', typrelid oid=0, "
    "typsubscript oid=0, typelem oid, typarray oid, typinput text, typoutput text, typreceive text, typsend text, "
    "typmodin text='-', typmodout text='-', typanalyze text='-', typalign char='i', typstorage char, "
    "typnotnull bool=false, typbasetype oid=0, typtypmod int4=-1, typndims int4=0, typcollation oid, "
    "typdefaultbin text, typdefault text, typacl text[]",
    "pgc.pg_constraint": "oid oid, conname name, connamespace oid=2200, contype char, condeferrable bool=false, "
    "condeferred bool=false, convalidated bool=true, conrelid oid, contypid oid=0, conindid oid, conparentid oid=0, "
    "confrelid oid, confupdtype char, confdeltype char, confmatchtype char, conislocal bool=true, coninhcount int4=0, "
    "connoinherit bool=true, conkey int2[], confkey int2[], conpfeqop oid[], conppeqop oid[], conffeqop oid[], "
    "confdelsetcols int2[], conexclop oid[], conbin text, definition text",
    "pgc.pg_index": "indexrelid oid, indrelid oid, indnatts int2=1, indnkeyatts int2=1, indisunique bool=true, "
    "indnullsnotdistinct bool=false, indisprimary bool=false, indisexclusion bool=false, indimmediate bool=true, "
    "indisclustered bool=false, indisvalid bool=true, indcheckxmin bool=false, indisready bool=true, "
    "indislive bool=true, indisreplident bool=false, indkey int2[], indcollation oid[]=[0], indclass oid[]=[0], "
    "indoption text='0', indexprs text, indpred text, definition text, column_name text",
    "pgc.pg_namespace": "oid oid, nspname name, nspowner oid=10, nspacl text[]",
    "pgc.pg_database": "oid oid=99999, datname name, datdba oid=10, encoding int4=6, datlocprovider char='c', "
    "datistemplate bool=false, datallowconn bool=true, datconnlimit int4=-1, datfrozenxid int4=1, datminmxid int4=1, "
    "dattablespace oid=1663, datcollate text='C', datctype text='C', daticulocale text, datcollversion text, "
    "datacl text[], datlastsysoid oid=0",
    "pgc.pg_tables": "schemaname name='public', tablename name, tableowner name='tacit', tablespace name, "
    "hasindexes bool=false, hasrules bool=false, hastriggers bool=false, rowsecurity bool=false",
    "pgc.pg_am": "oid oid, amname name, amhandler text='-', amtype char",
    "pgc.pg_collation": "oid oid, collname name, collnamespace oid=11, collowner oid=10, collprovider char, "
    "collisdeterministic bool=true, collencoding int4=-1, collcollate text, collctype text, colliculocale text, "
    "collversion text",
    "pgc.pg_tablespace": "oid oid=1663, spcname name, spcowner oid=10, spcacl text[], spcoptions text[]",
    "pgc.pg_description": "objoid oid, classoid oid=1259, objsubid int4, description text",
    "pgi.schemata": "catalog_name name, schema_name name, schema_owner name='tacit'",
    "pgi.tables": f"{_WHERE}, table_type text='BASE TABLE', is_insertable_into text='NO', is_typed text='NO'",
    "pgi.columns": f"{_WHERE}, column_name name, ordinal_position int4, column_default text, is_nullable text, "
    "data_type text, character_maximum_length int4, character_octet_length int4, numeric_precision int4, "
    "numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type text, udt_catalog name, "
    "udt_schema name='pg_catalog', udt_name name, is_identity text='NO', is_generated text='NEVER', "
    "is_updatable text='NO', collation_name name, domain_name name",
    "pgi.table_constraints": f"{_ABOUT}, {_WHERE}, constraint_type text, is_deferrable text='NO', "
    "initially_deferred text='NO', enforced text='YES'",
    "pgi.key_column_usage": f"{_ABOUT}, {_WHERE}, column_name name, ordinal_position int4=1, "
    "position_in_unique_constraint int4",
    "pgi.constraint_column_usage": f"{_WHERE}, column_name name, {_ABOUT}",
    "pgt.tables": "name text, public bool, population text, unit text, max_groups int8, max_rows int8",
    "pgt.columns": "table_name text, name text, type text, low text, high text, categories text[], nullable bool",
}
#: Tables of features that Tacit lacks; they have no rows.
EMPTY: Final = {
    "pgc.pg_attrdef": "oid oid, adrelid oid, adnum int2, adbin text",
    "pgc.pg_auth_members": "oid oid, roleid oid, member oid, grantor oid, admin_option bool",
    "pgc.pg_default_acl": "oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype char, defaclacl text[]",
    "pgc.pg_depend": "classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid int4, deptype char",
    "pgc.pg_enum": "oid oid, enumtypid oid, enumsortorder float4, enumlabel name",
    "pgc.pg_extension": "oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, extversion text, extconfig oid[], extcondition text[]",
    "pgc.pg_inherits": "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool",
    "pgc.pg_matviews": "schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool, ispopulated bool, definition text",
    "pgc.pg_opclass": "oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily oid, opcintype oid, opcdefault bool, opckeytype oid",
    "pgc.pg_policy": "oid oid, polname name, polrelid oid, polcmd char, polpermissive bool, polroles oid[], polqual text, polwithcheck text",
    "pgc.pg_proc": "oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4, prorows float4, provariadic oid, prokind char, prosecdef bool, proleakproof bool, proisstrict bool, proretset bool, provolatile char, proparallel char, pronargs int2, pronargdefaults int2, prorettype oid, proargtypes oid[], proallargtypes oid[], proargmodes text[], proargnames text[], proargdefaults text, prosrc text, probin text, proacl text[]",
    "pgc.pg_publication": "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool",
    "pgc.pg_publication_namespace": "oid oid, pnpubid oid, pnnspid oid",
    "pgc.pg_publication_rel": "oid oid, prpubid oid, prrelid oid, prqual text, prattrs int2[]",
    "pgc.pg_range": "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid",
    "pgc.pg_sequence": "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, seqcache int8, seqcycle bool",
    "pgc.pg_statistic_ext": "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, stxstattarget int4, stxkeys int2[], stxkind text[]",
    "pgc.pg_trigger": "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled char, tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, tgattr int2[], tgargs text, tgqual text, tgoldtable name, tgnewtable name",
    "pgc.pg_views": "schemaname name, viewname name, viewowner name, definition text",
    "pgi.views": "table_catalog name, table_schema name, table_name name, view_definition text",
}  # fmt: skip
#: Tables about a person's account and settings, read for each query: their columns.
DYNAMIC: Final = {
    "pgt.budget": "population text, owner text, currency text, cap text, spent text, remaining text",
    "pgt.history": "position int8, population text, charge text, sql text, analyst text, answered bool",
    "x_setting": "x_name text, x_value text",
}
_FILL: Final = """
INSERT INTO pgc.pg_namespace (oid, nspname) VALUES
    (2200, 'public'), (11, 'pg_catalog'), (13200, 'information_schema'), (16383, 'tacit');
INSERT INTO pgc.pg_database (datname) VALUES (current_database());
INSERT INTO pgc.pg_am (oid, amname, amtype) VALUES (2, 'heap', 't'), (403, 'btree', 'i');
INSERT INTO pgc.pg_collation (oid, collname, collprovider, collcollate, collctype) VALUES
    (100, 'default', 'd', NULL, NULL), (950, 'C', 'c', 'C', 'C');
INSERT INTO pgc.pg_tablespace (spcname) VALUES ('pg_default');
CREATE MACRO current_user() AS getvariable('user');
CREATE VIEW pgc.pg_settings AS SELECT x_name AS name, x_value AS setting, CAST(NULL AS VARCHAR) AS unit,
    'Client Connection Defaults' AS category, '' AS short_desc, unit AS extra_desc, 'user' AS context,
    'string' AS vartype, 'default' AS source, unit AS min_val, unit AS max_val, x_value AS boot_val,
    x_value AS reset_val, false AS pending_restart FROM x_setting;
CREATE VIEW pgc.pg_roles AS SELECT CAST(x_oid AS UINTEGER) AS oid, x_name AS rolname, false AS rolsuper,
    true AS rolinherit, false AS rolcreaterole, false AS rolcreatedb, x_login AS rolcanlogin,
    false AS rolreplication, -1 AS rolconnlimit, CAST(NULL AS VARCHAR) AS rolpassword,
    CAST(NULL AS TIMESTAMPTZ) AS rolvaliduntil, false AS rolbypassrls, CAST(NULL AS VARCHAR[]) AS rolconfig
    FROM (VALUES (10, 'tacit', false), (36384, CAST(current_user() AS VARCHAR), true)) AS x_role(x_oid, x_name, x_login);
CREATE VIEW pgc.pg_user AS SELECT rolname AS usename, oid AS usesysid, false AS usecreatedb, false AS usesuper,
    false AS userepl, false AS usebypassrls, rolpassword AS passwd, rolvaliduntil AS valuntil,
    rolconfig AS useconfig FROM pgc.pg_roles WHERE rolcanlogin;

INSERT INTO pgt.tables SELECT x_name, x_public, x_population, x_unit, x_groups, x_rows FROM x_class;
INSERT INTO pgt.columns
    SELECT x_table, x_column, x_type, x_low, x_high, x_categories, x_nullable FROM x_column;
INSERT INTO pgc.pg_tables BY NAME SELECT x_name AS tablename FROM x_class;
INSERT INTO pgc.pg_description BY NAME
    SELECT x_oid AS objoid, 0 AS objsubid, x_owner AS description FROM x_class
    UNION ALL SELECT x_relation, x_place, x_known FROM x_column WHERE x_known <> '';
INSERT INTO pgc.pg_type BY NAME
    SELECT x_oid AS oid, x_name AS typname, x_size AS typlen, x_size BETWEEN 1 AND 8 AS typbyval,
        CASE x_oid WHEN 705 THEN 'p' ELSE 'b' END AS typtype, x_category AS typcategory,
        x_oid IN (25, 26) AS typispreferred, CASE WHEN x_element > 0 THEN 6179 ELSE 0 END AS typsubscript,
        x_element AS typelem, x_array AS typarray,
        of_kind || 'in' AS typinput, of_kind || 'out' AS typoutput, of_kind || 'recv' AS typreceive, of_kind || 'send' AS typsend,
        CASE WHEN x_size > 0 THEN 'p' ELSE 'x' END AS typstorage,
        CASE x_category WHEN 'S' THEN 100 ELSE 0 END AS typcollation
    FROM (SELECT *, CASE WHEN x_element > 0 THEN 'array_' ELSE x_name END AS of_kind FROM x_type);

CREATE TABLE x_index AS SELECT x_oid + 100000 AS x_index, * REPLACE (
    'CREATE UNIQUE INDEX ' || x_name || ' ON public.' || x_table || ' USING btree (' || x_column || ')' AS x_text)
    FROM x_constraint WHERE x_kind = 'u';
INSERT INTO pgc.pg_index BY NAME SELECT x_index AS indexrelid, x_relation AS indrelid, [x_place] AS indkey,
    x_text AS definition, x_column AS column_name FROM x_index;
INSERT INTO pgc.pg_constraint BY NAME
    SELECT c.x_oid AS oid, c.x_name AS conname, c.x_kind AS contype, c.x_relation AS conrelid,
        coalesce(i.x_index, 0) AS conindid, c.x_target AS confrelid,
        CASE c.x_kind WHEN 'f' THEN 'a' ELSE ' ' END AS confupdtype, confupdtype AS confdeltype,
        CASE c.x_kind WHEN 'f' THEN 's' ELSE ' ' END AS confmatchtype, [c.x_place] AS conkey,
        CASE c.x_kind WHEN 'f' THEN [c.x_target_place] END AS confkey, c.x_text AS definition
    FROM x_constraint c LEFT JOIN x_index i
        ON (c.x_kind = 'u' AND i.x_oid = c.x_oid) OR (i.x_relation = c.x_target AND i.x_place = c.x_target_place);

INSERT INTO pgi.schemata BY NAME SELECT current_database() AS catalog_name, nspname AS schema_name FROM pgc.pg_namespace;
INSERT INTO pgi.tables BY NAME SELECT current_database() AS table_catalog, x_name AS table_name FROM x_class;
INSERT INTO pgi.columns BY NAME
    SELECT current_database() AS table_catalog, x_table AS table_name, x_column AS column_name,
        x_place AS ordinal_position, CASE WHEN x_nullable THEN 'YES' ELSE 'NO' END AS is_nullable,
        t.x_shown AS data_type, CASE t.x_name WHEN 'text' THEN 1 << 30 END AS character_octet_length,
        CASE t.x_name WHEN 'int8' THEN 64 WHEN 'numeric' THEN 18 WHEN 'float8' THEN 53 END AS numeric_precision,
        CASE t.x_name WHEN 'int8' THEN 2 WHEN 'numeric' THEN 10 WHEN 'float8' THEN 2 END AS numeric_precision_radix,
        CASE t.x_name WHEN 'int8' THEN 0 WHEN 'numeric' THEN (x_modifier - 4) & 65535 END AS numeric_scale,
        CASE t.x_name WHEN 'timestamp' THEN 6 WHEN 'date' THEN 0 END AS datetime_precision,
        current_database() AS udt_catalog, t.x_name AS udt_name
    FROM x_column JOIN x_type t USING (x_oid);
INSERT INTO pgi.table_constraints BY NAME
    SELECT current_database() AS constraint_catalog, x_name AS constraint_name, current_database() AS table_catalog,
        x_table AS table_name, CASE x_kind WHEN 'u' THEN 'UNIQUE' ELSE 'FOREIGN KEY' END AS constraint_type
    FROM x_constraint;
INSERT INTO pgi.key_column_usage BY NAME
    SELECT current_database() AS constraint_catalog, x_name AS constraint_name, current_database() AS table_catalog,
        x_table AS table_name, x_column AS column_name,
        CASE x_kind WHEN 'f' THEN 1 END AS position_in_unique_constraint
    FROM x_constraint;
INSERT INTO pgi.constraint_column_usage BY NAME
    SELECT current_database() AS table_catalog, coalesce(x_target_table, x_table) AS table_name,
        coalesce(x_target_column, x_column) AS column_name, current_database() AS constraint_catalog,
        x_name AS constraint_name FROM x_constraint;
INSERT INTO x_class BY NAME SELECT x_index AS x_oid, x_name, 'i' AS x_kind, 1 AS x_columns FROM x_index;
INSERT INTO x_column BY NAME
    SELECT i.x_index AS x_relation, 1 AS x_place, i.x_column, c.x_oid
    FROM x_index i JOIN x_column c USING (x_relation, x_place);
CREATE TABLE x_system AS
    SELECT coalesce(known.x_oid, 12000 + row_number() OVER (ORDER BY schema_name, name)) AS x_oid, name AS x_name,
        nspace.oid AS x_space, CASE nspace.oid WHEN 11 THEN 'r' ELSE 'v' END AS x_kind, schema_name AS x_schema
    FROM (SELECT schema_name, table_name AS name FROM duckdb_tables()
          UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal)
    JOIN (VALUES ('pgc', 11), ('pgi', 13200), ('pgt', 16383)) AS nspace(place, oid) ON place = schema_name
    LEFT JOIN (VALUES ('pg_class', 1259), ('pg_type', 1247), ('pg_attribute', 1249), ('pg_namespace', 2615),
        ('pg_proc', 1255), ('pg_constraint', 2606), ('pg_database', 1262), ('pg_attrdef', 2604),
        ('pg_description', 2609), ('pg_index', 2610), ('pg_am', 2601), ('pg_trigger', 2620)
    ) AS known(x_name, x_oid) ON known.x_name = name;
INSERT INTO x_column BY NAME
    SELECT x_system.x_oid AS x_relation, column_index AS x_place, column_name AS x_column, k.x_oid
    FROM x_system JOIN duckdb_columns() c ON c.schema_name = x_schema AND c.table_name = x_name
    JOIN x_duckdb k ON k.x_kind = c.data_type;
INSERT INTO x_class BY NAME
    SELECT x_system.x_oid, x_name, x_space, x_kind, count(*) AS x_columns
    FROM x_system JOIN x_column ON x_relation = x_system.x_oid GROUP BY ALL;
INSERT INTO pgc.pg_class BY NAME
    SELECT x_oid AS oid, x_name AS relname, x_space AS relnamespace,
        CASE x_kind WHEN 'r' THEN 2 WHEN 'i' THEN 403 ELSE 0 END AS relam, x_oid AS relfilenode,
        x_oid IN (SELECT x_relation FROM x_index) AS relhasindex, x_kind AS relkind, x_columns AS relnatts,
        x_oid IN (SELECT unnest([x_relation, x_target]) FROM x_constraint) AS relhastriggers
    FROM x_class;
INSERT INTO pgc.pg_attribute BY NAME
    SELECT x_relation AS attrelid, x_column AS attname, c.x_oid AS atttypid, x_size AS attlen, x_place AS attnum,
        CASE WHEN x_element > 0 THEN 1 ELSE 0 END AS attndims, x_modifier AS atttypmod,
        x_size BETWEEN 1 AND 8 AS attbyval, CASE WHEN x_size > 0 THEN 'p' ELSE 'x' END AS attstorage,
        NOT x_nullable AS attnotnull, CASE x_category WHEN 'S' THEN 100 ELSE 0 END AS attcollation
    FROM x_column c JOIN x_type USING (x_oid);
"""
#: Functions of PostgreSQL that DuckDB lacks, or that have another meaning there.
MACROS: Final = {
    **dict.fromkeys(
        (
            "pg_get_expr(e, r, p := false)", "pg_get_viewdef(v, p := false)", "pg_get_serial_sequence(t, c)",
            "pg_get_triggerdef(t, p := false)", "pg_get_function_arguments(f)", "pg_get_function_result(f)",
            "pg_get_statisticsobjdef_columns(f)", "pg_advisory_unlock_all()",
        ),
        "CAST(NULL AS VARCHAR)",
    ),
    **dict.fromkeys(
        ("pg_table_size(o)", "pg_database_size(o)"),
        "CAST(NULL AS BIGINT)",
    ),
    **dict.fromkeys(("pg_relation_is_publishable(o)", "pg_is_in_recovery()"), "false"),
    "format_type(t, m)": """
        CASE WHEN t IS NULL THEN NULL ELSE coalesce((SELECT CASE
            WHEN x_element > 0 THEN x_shown || '[]'
            WHEN x_name = 'numeric' AND m > 0 THEN
                'numeric(' || (((m - 4) >> 16) & 65535) || ',' || ((m - 4) & 65535) || ')'
            ELSE x_shown END
            FROM x_type WHERE x_oid = t), '???') END""",
    "regclass_name(o)": "coalesce((SELECT x_name FROM x_class WHERE x_oid = o), CAST(o AS VARCHAR))",
    "regtype_name(o)": "format_type(o, NULL)",
    "pg_get_userbyid(o)": "CASE o WHEN 10 THEN 'tacit' WHEN 36384 THEN current_user() ELSE 'unknown' END",
    "obj_description(o, c := 'pg_class')": "(SELECT x_owner FROM x_class WHERE x_oid = o AND c = 'pg_class')",
    "col_description(o, n)": "(SELECT nullif(x_known, '') FROM x_column WHERE x_relation = o AND x_place = n)",
    "pg_get_constraintdef(o, p := false)": "(SELECT x_text FROM x_constraint WHERE x_oid = o)",
    "pg_get_indexdef(i, n := 0, p := false)": "(SELECT CASE WHEN n = 0 THEN x_text ELSE x_column END FROM x_index WHERE x_index = i)",
    "pg_table_is_visible(o)": "coalesce((SELECT x_space IN (2200, 11) FROM x_class WHERE x_oid = o), false)",
    "pg_type_is_visible(o)": "o IN (SELECT x_oid FROM x_type)",
    "pg_encoding_to_char(e)": "CASE WHEN e = 6 THEN 'UTF8' ELSE '' END",
    "pg_client_encoding()": "'UTF8'",
    "pg_tablespace_location(o)": "''",
    "pg_backend_pid()": "0",
    "version()": f"'PostgreSQL {VERSION} (Tacit)'",
    "session_user()": "current_user()",
    "current_schema()": "'public'",
    "current_catalog()": "current_database()",
    "current_schemas(b)": "CASE WHEN b THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "current_setting(n, m := false)": "coalesce((SELECT max(x_value) FROM x_setting WHERE x_name = lower(n)), "
    "CASE WHEN m THEN NULL ELSE error('42704: ' || n || ': is no setting; SHOW ALL lists those there are') END)",
    "pg_partition_ancestors(o)": "CAST(o AS BIGINT)",
    "has_table_privilege(a, b, c := '')": "position('SELECT' IN upper(CASE WHEN c = '' THEN CAST(b AS VARCHAR) ELSE c END)) > 0",
    "has_any_column_privilege(a, b, c := '')": "position('SELECT' IN upper(CASE WHEN c = '' THEN CAST(b AS VARCHAR) ELSE c END)) > 0",
    "pg_has_role(a, b, c := '')": "CAST(a AS VARCHAR) = CAST(b AS VARCHAR) OR c = ''",
    "quote_ident(t)": "CASE WHEN regexp_matches(t, '^[a-z_][a-z0-9_]*$') THEN t "
    "ELSE '\"' || replace(t, '\"', '\"\"') || '\"' END",
    "array_to_string(a, s, n := NULL)": "list_aggregate(a, 'string_agg', s)",
    "array_length(a, d)": "CASE WHEN len(a) = 0 THEN NULL ELSE len(a) END",
    "array_upper(a, d)": "CASE WHEN len(a) = 0 THEN NULL ELSE len(a) END",
    "array_lower(a, d)": "CASE WHEN len(a) = 0 THEN NULL ELSE 1 END",
    "cardinality(a)": "len(a)",
    # A query that lengthens a text beyond a limit is refused; the text is not cut.
    "bounded(t, n)": "CASE WHEN length(CAST(t AS VARCHAR)) > n THEN error('54000: a text in a query of the catalogue is too long') ELSE CAST(t AS VARCHAR) END",
    "list_text(a)": "'{' || array_to_string(list_transform(a, lambda e: CASE WHEN e IS NULL THEN 'NULL' "
    "WHEN regexp_matches(CAST(e AS VARCHAR), '[{},\"\\\\\\s]|^$|^(?i:null)$') THEN '\"' || "
    "replace(replace(CAST(e AS VARCHAR), '\\', '\\\\'), '\"', '\\\"') || '\"' ELSE CAST(e AS VARCHAR) END), ',') || '}'",
    "_pg_expandarray(a)": "unnest(list_transform(a, lambda v, i: {'x': v, 'n': i}))",
    "to_regtype(t)": "(SELECT max(x_oid) FROM x_type WHERE x_name = t)",
}  # fmt: skip


def create_system_tables(connection: duckdb.DuckDBPyConnection, catalog: Catalog, database: str) -> None:
    """Create all system tables for people who see this catalog; the project is the database."""
    run = connection.execute
    for schema in SCHEMAS.values():
        run(f"CREATE SCHEMA {schema}")
    for name, words in (_DECLARED | TABLES | EMPTY).items():
        run(f"CREATE TABLE {name} ({_columns(words)})")
    for name, words in DYNAMIC.items():
        rows = f"CAST(getvariable('{name.rpartition('.')[2]}') AS STRUCT({_columns(words)})[])"
        run(f"CREATE VIEW {name} AS SELECT unnest({rows}, max_depth := 2)")
    for name, held in _declared(catalog).items():
        if held:
            run(f"INSERT INTO {name} BY NAME SELECT unnest(?, max_depth := 2)", [held])
    quoted = database.replace("'", "''")
    run(f"CREATE MACRO current_database() AS '{quoted}'")
    run(_FILL)
    for head, body in MACROS.items():
        run(f"CREATE MACRO {head} AS {body if body.startswith('TABLE') else f'({body})'}")


def _columns(words: str) -> str:
    """Return DuckDB's column definitions for a text of ``name type`` or ``name type=value``."""
    found = []
    for word in words.split(", "):
        name, _, kind = word.partition(" ")
        kind, _, value = kind.partition("=")
        found.append(f"{name} {_KINDS[kind]}" + (f" DEFAULT {value}" if value else ""))
    return ", ".join(found)


def _declared(catalog: Catalog) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables that hold the declared metadata."""
    oids = {table.name: _FIRST + i for i, table in enumerate(catalog.tables)}
    classes: list[dict[str, Any]] = []
    columns: list[dict[str, Any]] = []
    keys: list[dict[str, Any]] = []
    for table in catalog.tables:
        about = {"x_relation": oids[table.name], "x_table": table.name}
        # AUTO has no bounds until a query finds them.
        most = [None if table.public or isinstance(n, str) else n for n in (table.max_groups, table.max_rows)]
        classes.append(
            {"x_oid": oids[table.name], "x_name": table.name, "x_columns": len(table.columns),
             "x_owner": owner_of(table), "x_public": table.public, "x_population": table.population,
             "x_unit": table.unit, "x_groups": most[0], "x_rows": most[1]}
        )  # fmt: skip
        for place, column in enumerate(table.columns, 1):
            wire, ends = column_of(column.name, column.type), column.bounds or (None, None)
            listed = column.categories
            columns.append(
                {**about, "x_place": place, "x_column": column.name, "x_oid": wire.oid, "x_modifier": wire.modifier,
                 "x_nullable": column.nullable, "x_known": "; ".join(known_of(table, column)),
                 "x_type": str(column.type), "x_low": _text(ends[0]), "x_high": _text(ends[1]),
                 "x_categories": None if listed is None else list(map(_text, listed))}
            )  # fmt: skip
            if column.unique:
                keys.append(
                    {**about, "x_kind": "u", "x_name": f"{table.name}_{column.name}_key", "x_column": column.name,
                     "x_place": place, "x_target": 0, "x_text": f"UNIQUE ({column.name})"}
                )  # fmt: skip
        for key in table.foreign_keys:
            own, target = table.find(key.column), catalog.table(key.table)
            other = None if target is None else target.find(key.references)
            if own is not None and target is not None and other is not None:
                words = f"FOREIGN KEY ({own.name}) REFERENCES {target.name}({other.name})"
                keys.append(
                    {**about, "x_kind": "f", "x_name": f"{table.name}_{own.name}_fkey", "x_column": own.name,
                     "x_place": table.columns.index(own) + 1, "x_target": oids[target.name],
                     "x_target_table": target.name, "x_target_column": other.name,
                     "x_target_place": target.columns.index(other) + 1, "x_text": words}
                )  # fmt: skip
    types = [
        {"x_oid": each.oid, "x_name": each.name, "x_shown": each.shown, "x_size": each.size,
         "x_category": each.category, "x_element": 0, "x_array": each.array}
        for each in TYPES.values()
    ]  # fmt: skip
    arrays = [
        {"x_oid": array, "x_name": f"_{TYPES[oid].name}", "x_shown": TYPES[oid].shown, "x_size": -1,
         "x_category": "A", "x_element": oid, "x_array": 0}
        for array, oid in ARRAYS.items()
    ]  # fmt: skip
    return {
        "x_class": classes,
        "x_column": columns,
        "x_constraint": [{"x_oid": _FIRST + 10_001 + i, **key} for i, key in enumerate(keys)],
        "x_type": [*types, *arrays],
        "x_duckdb": [{"x_kind": kind, "x_oid": oid} for kind, oid in DUCKDB_TYPES.items()],
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
