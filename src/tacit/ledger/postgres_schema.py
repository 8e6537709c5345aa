"""PostgreSQL: step ``n`` of :data:`MIGRATIONS` turns version ``n`` of the tables into version ``n + 1``.

Statements run with the ledger's own schema first on the search path. A step that was ever released is never edited.

``append`` carries out a step of :mod:`tacit.ledger.protocol` in one round trip and two transactions. The first takes
the ledger's lock, so steps happen one after the other; refuses, having written nothing or rolling back what it wrote;
or commits without waiting for the disk, which gives the lock on. The second waits for the disk.
"""

from __future__ import annotations

from typing import Final

_TABLES: Final = (
    # Rows that change with every step leave room on their page, so that an update touches no index.
    "CREATE TABLE head (seq BIGINT NOT NULL, hash BYTEA NOT NULL) WITH (fillfactor = 10)",
    "INSERT INTO head VALUES (0, decode(repeat('00', 32), 'hex'))",
    """
    CREATE TABLE entries (
        seq BIGINT PRIMARY KEY,
        body TEXT NOT NULL,
        hash BYTEA NOT NULL
    )
    """,
    """
    CREATE TABLE pockets (
        account TEXT COLLATE "C" NOT NULL,
        owner TEXT COLLATE "C" NOT NULL,
        currency TEXT COLLATE "C" NOT NULL,
        spent NUMERIC NOT NULL,
        cap NUMERIC,
        PRIMARY KEY (account, owner, currency)
    ) WITH (fillfactor = 10)
    """,
    """
    CREATE TABLE names (
        space TEXT COLLATE "C" NOT NULL,
        key TEXT COLLATE "C" NOT NULL,
        seq BIGINT NOT NULL,
        PRIMARY KEY (space, key)
    )
    """,
    """
    CREATE TABLE papers (
        seq BIGINT NOT NULL,
        name TEXT NOT NULL,
        content BYTEA NOT NULL,
        PRIMARY KEY (seq, name)
    )
    """,
    """
    CREATE FUNCTION entries_stay() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'entries are never changed or deleted'; END $$
    """,
    """
    CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_stay()
    """,
)

_APPEND: Final = """
CREATE FUNCTION append(
    entry text, moves jsonb, caps jsonb, barred jsonb, named jsonb, dropped jsonb, titles text[], contents bytea[]
) RETURNS TABLE (verdict text, place bigint, digest bytea, before bytea, details jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    last head%ROWTYPE;
    holder names%ROWTYPE;
    trouble jsonb;
    mark bytea;
    moved integer;
    made integer;
BEGIN
    SELECT * INTO STRICT last FROM head FOR UPDATE;

    SELECT n.* INTO holder
    FROM jsonb_array_elements(barred) WITH ORDINALITY AS b (name, turn)
    JOIN names AS n ON n.space = b.name ->> 0 AND n.key = b.name ->> 1
    ORDER BY b.turn LIMIT 1;
    IF FOUND THEN
        RETURN QUERY SELECT 'taken', holder.seq, NULL::bytea, NULL::bytea, to_jsonb(ARRAY[holder.space, holder.key]);
        RETURN;
    END IF;

    SELECT jsonb_agg(to_jsonb(ARRAY[p.account, p.owner, p.currency, p.spent::text, p.cap::text]) ORDER BY m.turn)
    INTO trouble
    FROM jsonb_array_elements(moves) WITH ORDINALITY AS m (move, turn)
    JOIN pockets AS p ON (p.account, p.owner, p.currency) = (m.move ->> 0, m.move ->> 1, m.move ->> 2)
    WHERE p.spent + (m.move ->> 3)::numeric > p.cap;
    IF trouble IS NOT NULL THEN
        RETURN QUERY SELECT 'short', NULL::bigint, NULL::bytea, NULL::bytea, trouble;
        RETURN;
    END IF;

    mark := sha256(last.hash || sha256(convert_to(entry, 'UTF8')));
    UPDATE head SET seq = last.seq + 1, hash = mark;
    INSERT INTO entries VALUES (last.seq + 1, entry, mark);
    IF caps <> '[]' THEN
        INSERT INTO pockets SELECT c ->> 0, c ->> 1, c ->> 2, 0, (c ->> 3)::numeric FROM jsonb_array_elements(caps) AS c
        ON CONFLICT (account, owner, currency) DO UPDATE SET cap = EXCLUDED.cap;
    END IF;
    UPDATE pockets AS p SET spent = p.spent + (m ->> 3)::numeric FROM jsonb_array_elements(moves) AS m
    WHERE p.account = m ->> 0 AND p.owner = m ->> 1 AND p.currency = m ->> 2;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved < jsonb_array_length(moves) THEN
        -- The others are not there yet, and may be made, or are gone.
        INSERT INTO pockets SELECT m ->> 0, m ->> 1, m ->> 2, (m ->> 3)::numeric, NULL
        FROM jsonb_array_elements(moves) AS m WHERE (m ->> 4)::boolean
        ON CONFLICT (account, owner, currency) DO NOTHING;
        GET DIAGNOSTICS made = ROW_COUNT;
        IF moved + made < jsonb_array_length(moves) THEN
            RAISE EXCEPTION 'a pocket is gone';
        END IF;
    END IF;
    INSERT INTO names SELECT n ->> 0, n ->> 1, last.seq + 1 FROM jsonb_array_elements(named) AS n
    ON CONFLICT (space, key) DO UPDATE SET seq = EXCLUDED.seq;
    IF dropped <> '[]' THEN
        DELETE FROM names USING jsonb_array_elements(dropped) AS d WHERE space = d ->> 0 AND key = d ->> 1;
    END IF;
    IF cardinality(titles) > 0 THEN
        INSERT INTO papers SELECT last.seq + 1, p.title, p.content FROM unnest(titles, contents) AS p (title, content);
    END IF;
    RETURN QUERY SELECT 'placed', last.seq + 1, mark, last.hash, NULL::jsonb;
END
$$
"""

#: Version 2: no row for the head, which every step rewrote; plain arrays; one call in place of two.
_LEAN: Final = (
    "DROP FUNCTION append(text, jsonb, jsonb, jsonb, jsonb, jsonb, text[], bytea[])",
    "DROP TABLE head",
    """
    CREATE PROCEDURE append(
        entry text,
        accounts text[], owners text[], currencies text[], amounts numeric[], opening boolean[],
        spaces text[], keys text[], bars integer, claims integer,
        caps jsonb, dropped jsonb, titles text[], contents bytea[], patience text,
        INOUT verdict text, INOUT place bigint, INOUT details text, INOUT newest bigint, INOUT trail bytea
    ) LANGUAGE plpgsql AS $$
    DECLARE
        previous bytea;
        held record;
    BEGIN
        verdict := 'placed';
        -- For this transaction alone: it does not wait for the disk, or each step in the queue for the lock would wait
        -- for a sync of every one before it; and it gives up waiting, for here it is certain that nothing was written.
        PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', patience, true),
            pg_advisory_xact_lock(1952539497, 'entries'::regclass::oid::integer);
        SELECT e.seq + 1, e.hash INTO place, previous FROM entries AS e ORDER BY e.seq DESC LIMIT 1;
        IF NOT FOUND THEN
            place := 1;
            previous := decode(repeat('00', 32), 'hex');
        END IF;

        FOR i IN 1 .. cardinality(spaces) LOOP
            IF i > bars + claims THEN
                INSERT INTO names VALUES (spaces[i], keys[i], place)
                ON CONFLICT (space, key) DO UPDATE SET seq = EXCLUDED.seq;
                CONTINUE;
            ELSIF i > bars THEN
                INSERT INTO names VALUES (spaces[i], keys[i], place) ON CONFLICT DO NOTHING;
                CONTINUE WHEN FOUND;
            END IF;
            SELECT n.seq INTO held FROM names AS n WHERE n.space = spaces[i] AND n.key = keys[i];
            IF FOUND THEN
                verdict := 'taken';
                place := held.seq;
                details := i;
                EXIT;
            END IF;
        END LOOP;

        IF verdict = 'placed' THEN
            FOR i IN 1 .. cardinality(amounts) LOOP
                UPDATE pockets AS p SET spent = p.spent + amounts[i]
                WHERE p.account = accounts[i] AND p.owner = owners[i] AND p.currency = currencies[i]
                AND (p.cap IS NULL OR p.spent + amounts[i] <= p.cap);
                CONTINUE WHEN FOUND;
                SELECT p.spent, p.cap INTO held FROM pockets AS p
                WHERE p.account = accounts[i] AND p.owner = owners[i] AND p.currency = currencies[i];
                IF FOUND THEN
                    verdict := 'short';
                    details := concat_ws(' ', details, i, held.spent, held.cap);
                ELSIF opening[i] THEN
                    INSERT INTO pockets VALUES (accounts[i], owners[i], currencies[i], amounts[i], NULL);
                ELSE
                    RAISE EXCEPTION 'a pocket is gone';
                END IF;
            END LOOP;
        END IF;

        IF verdict = 'placed' THEN
            INSERT INTO entries VALUES (place, entry, sha256(previous || sha256(convert_to(entry, 'UTF8'))));
            IF caps IS NOT NULL THEN
                INSERT INTO pockets
                SELECT c ->> 0, c ->> 1, c ->> 2, 0, (c ->> 3)::numeric FROM jsonb_array_elements(caps) AS c
                ON CONFLICT (account, owner, currency) DO UPDATE SET cap = EXCLUDED.cap;
            END IF;
            IF dropped IS NOT NULL THEN
                DELETE FROM names USING jsonb_array_elements(dropped) AS d WHERE space = d ->> 0 AND key = d ->> 1;
            END IF;
            IF titles IS NOT NULL THEN
                INSERT INTO papers SELECT place, p.title, p.content FROM unnest(titles, contents) AS p (title, content);
            END IF;
            COMMIT;
        ELSE
            ROLLBACK;
        END IF;

        -- The end of this transaction waits for the disk, and the log is flushed in order: with this message everything
        -- before it is durable, of other clients too, whatever was learnt above and is read here.
        IF verdict = 'placed' THEN
            SELECT max(e.seq), string_agg(e.hash, ''::bytea), pg_logical_emit_message(true, 'tacit', '')
            INTO newest, trail
            FROM (SELECT seq, hash FROM entries WHERE seq >= place - 9 ORDER BY seq DESC) AS e;
        ELSE
            PERFORM pg_logical_emit_message(true, 'tacit', '');
        END IF;
    END
    $$
    """,
)

MIGRATIONS: Final = ((*_TABLES, _APPEND), _LEAN)
