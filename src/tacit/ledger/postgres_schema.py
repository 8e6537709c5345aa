"""PostgreSQL: tables of a ledger, and the procedure that carries out a step.

Statements run with the ledger's own schema first on the search path.

``append`` carries out a step of :mod:`tacit.ledger.protocol` in one round trip and two transactions. The first takes
the ledger's lock, so steps happen one after the other; refuses, having written nothing or rolling back what it wrote;
or commits without waiting for the disk, which gives the lock on. The second waits for the disk.
"""

from __future__ import annotations

from typing import Final

TABLES: Final = (
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
