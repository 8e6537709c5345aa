CREATE SCHEMA tacit_ledger;
CREATE PROCEDURE tacit_ledger.append(IN entry text, IN accounts text[], IN owners text[], IN currencies text[], IN amounts numeric[], IN opening boolean[], IN spaces text[], IN keys text[], IN bars integer, IN claims integer, IN caps jsonb, IN dropped jsonb, IN titles text[], IN contents bytea[], IN patience text, INOUT verdict text, INOUT place bigint, INOUT details text, INOUT newest bigint, INOUT trail bytea)
    LANGUAGE plpgsql
    AS $$
    DECLARE
        previous bytea;
        held record;
    BEGIN
        verdict := 'placed';
        -- For this transaction alone: it does not wait for the disk, or whoever waits for the lock would wait for one
        -- sync each; and it gives up waiting, for only here it is certain that nothing was written.
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
    $$;
CREATE FUNCTION tacit_ledger.entries_stay() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN RAISE EXCEPTION 'entries are never changed or deleted'; END $$;
CREATE TABLE tacit_ledger.entries (
    seq bigint NOT NULL,
    body text NOT NULL,
    hash bytea NOT NULL
);
CREATE TABLE tacit_ledger.names (
    space text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL
);
CREATE TABLE tacit_ledger.papers (
    seq bigint NOT NULL,
    name text NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE tacit_ledger.people_jobs (
    id text NOT NULL COLLATE pg_catalog."C",
    analyst text NOT NULL COLLATE pg_catalog."C",
    request text NOT NULL COLLATE pg_catalog."C",
    created bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL COLLATE pg_catalog."C",
    worker text NOT NULL COLLATE pg_catalog."C",
    lease bigint,
    finished bigint,
    tries bigint DEFAULT 0 NOT NULL
);
CREATE TABLE tacit_ledger.people_links (
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    born bigint NOT NULL,
    expires bigint NOT NULL
);
CREATE TABLE tacit_ledger.people_origins (
    origin text NOT NULL COLLATE pg_catalog."C",
    until bigint NOT NULL
);
CREATE TABLE tacit_ledger.people_persons (
    name text NOT NULL COLLATE pg_catalog."C",
    ended bigint NOT NULL,
    changed bigint NOT NULL,
    password text COLLATE pg_catalog."C"
);
CREATE TABLE tacit_ledger.people_seen (
    seq bigint NOT NULL,
    hash text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE tacit_ledger.people_sessions (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    born bigint NOT NULL,
    opened bigint NOT NULL,
    seen bigint NOT NULL
);
CREATE TABLE tacit_ledger.people_tokens (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    label text NOT NULL COLLATE pg_catalog."C",
    scopes text NOT NULL COLLATE pg_catalog."C",
    born bigint NOT NULL,
    issued bigint NOT NULL,
    expires bigint,
    used bigint,
    withdrawn bigint NOT NULL
);
CREATE TABLE tacit_ledger.people_tries (
    lane text NOT NULL COLLATE pg_catalog."C",
    failures bigint NOT NULL,
    latest bigint NOT NULL,
    until bigint NOT NULL
);
CREATE TABLE tacit_ledger.people_version (
    version bigint NOT NULL
);
CREATE TABLE tacit_ledger.pockets (
    account text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    currency text NOT NULL COLLATE pg_catalog."C",
    spent numeric NOT NULL,
    cap numeric
)
WITH (fillfactor='10');
CREATE TABLE tacit_ledger.version (
    version integer NOT NULL
);
INSERT INTO tacit_ledger.entries VALUES (1, '{"format":1,"key_check":"check","kind":"opened","ledger":"9d48499616e0ff632399cbcb1ea58888","public_key":"ed25519:7a2d8b12f4065138843a7ded46a9792b83f1ada641d5a3a9440b74e86d382f33","time":"2026-11-15T12:00:00+00:00"}', '\x452b3a158d2e1665743d4d410c572ff6be856f871b4ec7cf258a0213ae1f9406');
INSERT INTO tacit_ledger.entries VALUES (2, '{"kind":"account","population":"patients","terms":{"parameters":{"epsilon":"1"},"relation":"add_remove","rule":"pure"},"time":"2026-11-15T12:00:00+00:00"}', '\x1bf62737f09cfe339a4f0823d917d94f86bdf9695db5315e8ebcf31714f121a4');
INSERT INTO tacit_ledger.entries VALUES (3, '{"kind":"account","population":"staff","terms":{"parameters":{"delta":"1/1000000","rho":"1/2"},"relation":"add_remove","rule":"zcdp"},"time":"2026-11-15T12:00:00+00:00"}', '\x503b77a7241339214a0d41192a0bebbea9da7b9dae34702a1057049ef2ec991d');
INSERT INTO tacit_ledger.entries VALUES (4, '{"fingerprints":["file:visits"],"kind":"source","name":"visits","population":"patients","time":"2026-11-15T12:00:00+00:00"}', '\xb722c1e0385cd160b3afd4cd09430f537a8d727557609f40cd8207c65c774f2b');
INSERT INTO tacit_ledger.entries VALUES (5, '{"after":0,"kind":"unit","population":"patients","sources":[],"time":"2026-11-15T12:00:00+00:00","unit":{"type":"INTEGER","unit":"id"},"was":null}', '\x7ab0e93d2d69f1dccd34051d73a476824e7ccc6d1ee495118fb3fbc0b8d9c7d0');
INSERT INTO tacit_ledger.entries VALUES (6, '{"kind":"column","population":"patients","sources":[{"column":"patient_id","fresh":["file:visits"],"name":"visits","rows":["file:visits"]}],"time":"2026-11-15T12:00:00+00:00"}', '\x0a8af2479705fb8cecb188878f2b811f7569e98e96ce9023d4952f9286e86ec3');
INSERT INTO tacit_ledger.entries VALUES (7, '{"after":0,"changed":{},"kind":"declared","population":"patients","project":"clinic","table":"visits","terms":{"max_groups":"8","max_rows":"20","unit":"patient_id"},"time":"2026-11-15T12:00:00+00:00"}', '\x2444ebaaf6112e28c99458f2430e7fb212cfd36532e9e8625e8cdb87407049e9');
INSERT INTO tacit_ledger.entries VALUES (8, '{"after":7,"changed":{"max_rows":["20","30"]},"kind":"declared","population":"patients","project":"clinic","table":"visits","terms":{"max_groups":"8","max_rows":"30","unit":"patient_id"},"time":"2026-11-15T12:00:00+00:00"}', '\x518f994ee855502f41b477a574d2bb2ff933c4457259993ae83d9fe94d11423b');
INSERT INTO tacit_ledger.entries VALUES (9, '{"after":5,"kind":"unit","operator":"olga","population":"patients","reason":"types","sources":[{"column":"person","fresh":[],"name":"visits","rows":["file:visits"]}],"time":"2026-11-15T12:00:00+00:00","unit":{"type":"TEXT","unit":"id"},"was":{"type":"INTEGER","unit":"id"}}', '\x9ec1f4ab55358640f301214e0a589b2afe5d8eb97f1b48d791623cc79a60247f');
INSERT INTO tacit_ledger.entries VALUES (10, '{"active":true,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"alice","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}', '\x3f9ad3614b46ca92e975597df8dc0f0630c283b8b454e8f611caaba787f2cf78');
INSERT INTO tacit_ledger.entries VALUES (11, '{"active":true,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"bob","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}', '\x644cc00c0f5e0a63fd6b047e8973b8d784d411479202a080b83b9aad4a46b013');
INSERT INTO tacit_ledger.entries VALUES (12, '{"active":true,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"carol","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}', '\x2b281e82f9a44e9bfc6b397c1fef87f825f51dd1cef6af2422af781073ae6bde');
INSERT INTO tacit_ledger.entries VALUES (13, '{"active":true,"details":{"populations":null,"role":"owner"},"kind":"analyst","name":"olga","operator":"set-up","reason":"","time":"2026-11-15T12:00:00+00:00"}', '\xa34b002d2e5d1014700a01dc56729c157e2fc24da068e5d35ead433c10f8ced9');
INSERT INTO tacit_ledger.entries VALUES (14, '{"fields":{"analyst":"alice","expires":null,"label":"","operator":"olga","scopes":"ask","token":"55837eaa9a116382"},"kind":"note","note":"token issued","time":"2026-11-15T12:00:00+00:00"}', '\x26d10754c3be3a62f8f92c3c792bddf77df3d40208f7686ebda9b93a8fc6fa9e');
INSERT INTO tacit_ledger.entries VALUES (15, '{"fields":{"analyst":"alice","expires":null,"label":"","operator":"olga","scopes":"ask","token":"a252c9ef3545a63c"},"kind":"note","note":"token issued","time":"2026-11-15T12:00:00+00:00"}', '\x43372747e72511a497cf859f2e70bcd20ecd8b3fc6f76b7bb5883a2b6f7edd9b');
INSERT INTO tacit_ledger.entries VALUES (16, '{"fields":{"analyst":"alice","operator":"olga","token":"a252c9ef3545a63c"},"kind":"note","note":"token withdrawn","time":"2026-11-15T12:00:00+00:00"}', '\x0d9e984a6ed4d7730856a14644af1f960ec657678f7984ed9e1713b51bc6c611');
INSERT INTO tacit_ledger.entries VALUES (17, '{"fields":{"analyst":"bob","expires":null,"label":"","operator":"olga","scopes":"ask","token":"c7c416b2585f3b97"},"kind":"note","note":"token issued","time":"2026-11-15T12:00:00+00:00"}', '\x0390478d5765a02e6ee6b4ce961a1c5ae1bf059c4189fea12d1e1a4bbcc5e90c');
INSERT INTO tacit_ledger.entries VALUES (18, '{"fields":{"analyst":"alice","operator":"olga"},"kind":"note","note":"password set","time":"2026-11-15T12:00:00+00:00"}', '\x7250d0a8a552abe38a50e847d2438a130b5d6cbc7515975a962378b7d378597a');
INSERT INTO tacit_ledger.entries VALUES (19, '{"fields":{"analyst":"carol","operator":"olga"},"kind":"note","note":"invited","time":"2026-11-15T12:00:00+00:00"}', '\x270d790faef7e6fc053f5de04f7de8123f387be2fedd9524576ee27500943113');
INSERT INTO tacit_ledger.entries VALUES (20, '{"caps":{"epsilon":"1/2"},"kind":"quota","operator":"olga","owner":"analyst:alice","population":"patients","time":"2026-11-15T12:00:00+00:00"}', '\x6432d479497d085cf53f20394fe34ae01e67d7709ac11db609a18169543b4209');
INSERT INTO tacit_ledger.entries VALUES (21, '{"caps":{"epsilon":"1/3"},"kind":"quota","operator":"olga","owner":"project:x","population":"patients","time":"2026-11-15T12:00:00+00:00"}', '\x4732bf4244ca145e3ba3b77787e73a2fb96c3493adbda8060e3d9b9fd368529c');
INSERT INTO tacit_ledger.entries VALUES (22, '{"amounts":{"epsilon":"1/10"},"analyst":"alice","event":{"event":{"epsilon":"1/10","mechanism":"","relation":"add_remove"},"kind":"PureEvent"},"key":"k1","kind":"reserve","plan":"0000000000000000000000000000000000000000000000000000000000000000","population":"patients","project":"x","quote":{"rows":[1]},"repeat":"one","request":"c880eb3921d5abcf72e72df46fb55a39cbafd237f2bf03317804aa6b4429d3d9","sql":"SELECT \"\u00e9\"","time":"2026-11-15T12:00:00+00:00"}', '\xb7845d1b80a338f5c3f690becf983e0183ce24bab2fee1722b27e6a83b4860e9');
INSERT INTO tacit_ledger.entries VALUES (23, '{"key":"ed25519:7a2d8b12f4065138843a7ded46a9792b83f1ada641d5a3a9440b74e86d382f33","kind":"commit","of":22,"papers":{"receipt":"83eb65c95f440cb09910acf3c9cbefd64381a6097980698b568cc4a749668244","result":"ee9555184346cf42bc9ef6619d764c88f4c193f8fabbbffc0cceacfa44a9dd35"},"time":"2026-11-15T12:00:00+00:00"}', '\x29708346a7e9f68257f7a3998913bc5978b28ff2aa04d481c12bf71f550fbc8c');
INSERT INTO tacit_ledger.entries VALUES (24, '{"analyst":"bob","key":"k2","kind":"repeat","of":22,"population":"patients","project":"","request":"edd395036f0dcdd5b6ad26ec42d9afd3d4a3031f2c63b412de8397b976283f43","time":"2026-11-15T12:00:00+00:00"}', '\xd6ca2a4d7209ca8cdec1a0c673c2d74b83b4b595e4218543bdee7b0efad3f3f5');
INSERT INTO tacit_ledger.entries VALUES (25, '{"amounts":{"epsilon":"1/7"},"analyst":"bob","event":{"event":{"epsilon":"1/7","mechanism":"","relation":"add_remove"},"kind":"PureEvent"},"key":"","kind":"reserve","plan":"","population":"patients","project":"","quote":{},"repeat":"two","request":"","sql":"SELECT 2","time":"2026-11-15T12:00:00+00:00"}', '\x298d506288fb18e33df1a16b8f54956ead1ff8b52b64e298a2b96b75351cda18');
INSERT INTO tacit_ledger.entries VALUES (26, '{"kind":"run","number":2,"of":25,"time":"2026-11-15T12:00:00+00:00"}', '\xeced50dd27156531daf02250cd79a0f7cd1f2407991e271fe6a02b5ca0e0d26c');
INSERT INTO tacit_ledger.entries VALUES (27, '{"amounts":{"delta":"0","rho":"1/100"},"analyst":"alice","event":{"event":{"delta":"0","mechanism":"","relation":"add_remove","rho":"1/100"},"kind":"ZCDPEvent"},"key":"","kind":"reserve","plan":"","population":"staff","project":"","quote":{},"repeat":"three","request":"","sql":"","time":"2026-11-15T12:00:00+00:00"}', '\xa422281689377df1073e6493d497777cae26f8851cb14fad66fc55821b1fc1c1');
INSERT INTO tacit_ledger.entries VALUES (28, '{"kind":"commit","of":27,"papers":{"receipt":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","result":"79df84664a82a240521647137cdb4dbdf6c0ee1bf35bc05762d64f2defcd885e"},"time":"2026-11-15T12:00:00+00:00"}', '\x3a133cf9e6eb8551890af310f1ed56871e5d011691d8b4917a573ef417e6ae6e');
INSERT INTO tacit_ledger.entries VALUES (29, '{"accepted":"863b2dd9f38d9b337d79063a70db869822e3f3b2b2fb3eb75d6f788eeee76f12692efe7c9141e5d9855d5f60dda6c7923f2816a05590aa6cb04bf4f8812b870a","kind":"key","operator":"olga","previous":"ed25519:7a2d8b12f4065138843a7ded46a9792b83f1ada641d5a3a9440b74e86d382f33","public_key":"ed25519:e6b0ac3c43918a463fc6c6ccb76c07336b2538c8acef562c71dc8b8224194314","reason":"yearly","signature":"5fea91abd45474e70aec040c5a1f055d41dd8eebd598e811fbeccfaba35f7bb74d57728d95784226b5afd4b7f893af96a7786079074bc2b3289b131d9b500a01","time":"2026-11-15T12:00:00+00:00"}', '\x59c0601b1bfac8e4ddbc869d4944d2eafef740de644ae7539fddc67401614d47');
INSERT INTO tacit_ledger.entries VALUES (30, '{"kind":"caps","operator":"olga","population":"patients","reason":"more","terms":{"parameters":{"epsilon":"2"},"relation":"add_remove","rule":"pure"},"time":"2026-11-15T12:00:00+00:00"}', '\x7d4c323f4a8b0bb59b8c8f47ea8eb3c114d864ba2e56290775207a21bbfa60ee');
INSERT INTO tacit_ledger.entries VALUES (31, '{"active":false,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"bob","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}', '\x5a6f7e507b2cc902496c7311c0e5f296b2b886705b4cfa5a9ba92ef0d81b0a7a');
INSERT INTO tacit_ledger.entries VALUES (32, '{"fields":{"a":1},"kind":"note","note":"anything","time":"2026-11-15T12:00:00+00:00"}', '\x3d81e60af9dba097afea25e0c4ae804d75bd6945095627e32ba68eb5828ac6fc');
INSERT INTO tacit_ledger.names VALUES ('ledger', '', 1);
INSERT INTO tacit_ledger.names VALUES ('account', 'patients', 2);
INSERT INTO tacit_ledger.names VALUES ('account', 'staff', 3);
INSERT INTO tacit_ledger.names VALUES ('terms', 'staff', 3);
INSERT INTO tacit_ledger.names VALUES ('source', '58bac01ccf5109bbeb0dfdf64b5669cdeff479c38a81d8fd2cdaf57f725d4bff', 4);
INSERT INTO tacit_ledger.names VALUES ('unit after', '0:patients', 5);
INSERT INTO tacit_ledger.names VALUES ('bound', 'b4200faf8e660fe2fb50e7968773ab427db24d7abfa8d27fa3efb7aa6986c807', 6);
INSERT INTO tacit_ledger.names VALUES ('declared after', '0:4068024d8c83aa3f98476309417cdd80974acb5da2ed22b0850749f78298b1d4', 7);
INSERT INTO tacit_ledger.names VALUES ('declared after', '7:4068024d8c83aa3f98476309417cdd80974acb5da2ed22b0850749f78298b1d4', 8);
INSERT INTO tacit_ledger.names VALUES ('declared', '4068024d8c83aa3f98476309417cdd80974acb5da2ed22b0850749f78298b1d4', 8);
INSERT INTO tacit_ledger.names VALUES ('unit after', '5:patients', 9);
INSERT INTO tacit_ledger.names VALUES ('unit terms', 'patients', 9);
INSERT INTO tacit_ledger.names VALUES ('column', 'b4200faf8e660fe2fb50e7968773ab427db24d7abfa8d27fa3efb7aa6986c807', 9);
INSERT INTO tacit_ledger.names VALUES ('analyst', 'alice', 10);
INSERT INTO tacit_ledger.names VALUES ('analyst', 'carol', 12);
INSERT INTO tacit_ledger.names VALUES ('analyst', 'olga', 13);
INSERT INTO tacit_ledger.names VALUES ('request', '54dad4fc9542f5454f88615f342ab1f41753e563310a94da7f83bb0dc111a9c1', 22);
INSERT INTO tacit_ledger.names VALUES ('repeat', '41c5e59c82969d758f05b3d002b609a6ae79473b30ce47756b01a78ca977d9fa', 22);
INSERT INTO tacit_ledger.names VALUES ('outcome', '22', 23);
INSERT INTO tacit_ledger.names VALUES ('request', '631689b329c1a86184c6138299fe361f63dde51cc72aec57a1d75357e5512039', 24);
INSERT INTO tacit_ledger.names VALUES ('repeat', '175d610b2733d683983d0b335142ea738c6fa33e7548fae064d1e1e911f96518', 25);
INSERT INTO tacit_ledger.names VALUES ('run', '25 2', 26);
INSERT INTO tacit_ledger.names VALUES ('repeat', 'b5c20028a5ee3d5f6a874ef446f1aaa236cbc1c7691d61ca81f5eb5d86b10fe1', 27);
INSERT INTO tacit_ledger.names VALUES ('outcome', '27', 28);
INSERT INTO tacit_ledger.names VALUES ('successor', 'ed25519:7a2d8b12f4065138843a7ded46a9792b83f1ada641d5a3a9440b74e86d382f33', 29);
INSERT INTO tacit_ledger.names VALUES ('terms', 'patients', 30);
INSERT INTO tacit_ledger.names VALUES ('analyst', 'bob', 31);
INSERT INTO tacit_ledger.names VALUES ('revoked', 'bob', 31);
INSERT INTO tacit_ledger.papers VALUES (23, 'result', '\x616e20616e73776572');
INSERT INTO tacit_ledger.papers VALUES (23, 'receipt', '\x612072656365697074');
INSERT INTO tacit_ledger.papers VALUES (28, 'result', '\x7b22666f726d6174223a2274616369742d6661696c6564222c2276657273696f6e223a317d');
INSERT INTO tacit_ledger.papers VALUES (28, 'receipt', '\x');
INSERT INTO tacit_ledger.people_jobs VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'alice', '{"sql": "é"}', 1794744000000, 'waiting', '', '', NULL, NULL, 0);
INSERT INTO tacit_ledger.people_links VALUES ('welcome', 'carol', '6fad142fc970752a', '\x265dbb2381b4b0d7f0dbce8053ec28abe4e84d82ed89513c134fb0f627ebe4f8', 19, 1795003200000);
INSERT INTO tacit_ledger.people_origins VALUES ('fa5dedb64da64fdf8c1b394326ada92d', 1797336000000);
INSERT INTO tacit_ledger.people_persons VALUES ('', 0, 0, NULL);
INSERT INTO tacit_ledger.people_persons VALUES ('alice', 0, 18, '$argon2id$v=19$m=8,t=1,p=1$gNrwC3gekneC/TIem+MXeA$Sd5qDtt/wX2nNzw0an43yhoY7RZRLCiZA9pHcpd69A8');
INSERT INTO tacit_ledger.people_persons VALUES ('bob', 31, 0, NULL);
INSERT INTO tacit_ledger.people_seen VALUES (9, '9ec1f4ab55358640f301214e0a589b2afe5d8eb97f1b48d791623cc79a60247f');
INSERT INTO tacit_ledger.people_sessions VALUES ('231745d9cd952e87', 'alice', '\x155aab0bfdef97f705d650d7d163d184c18cb607e7e87ab369cfd5561fecc828', 18, 1794744000000, 1794744000000);
INSERT INTO tacit_ledger.people_tokens VALUES ('55837eaa9a116382', 'alice', '\xa5e14df5dcfdea3a4e6d88ff86631ca634a0e01b8e69c5e513a2bca601e12987', '', 'ask', 14, 1794744000000, NULL, NULL, 0);
INSERT INTO tacit_ledger.people_tokens VALUES ('a252c9ef3545a63c', 'alice', '\x1c4deb28ac7d41809ac228103da4d66da648fbd8ad64488247e0f380e7092da4', '', 'ask', 15, 1794744000000, NULL, NULL, 16);
INSERT INTO tacit_ledger.people_tokens VALUES ('c7c416b2585f3b97', 'bob', '\x13506819ca18df663536b0de8b9808d45411364d5a440723cfe3bd5abdfbbbbd', '', 'ask', 17, 1794744000000, NULL, NULL, 0);
INSERT INTO tacit_ledger.people_version VALUES (2);
INSERT INTO tacit_ledger.pockets VALUES ('staff', '', 'delta', 0, 20852386088294732932920960000000000000000000000);
INSERT INTO tacit_ledger.pockets VALUES ('patients', '', 'epsilon', 5064150907157292283709376000000000000000000000000000, 41704772176589465865841920000000000000000000000000000);
INSERT INTO tacit_ledger.pockets VALUES ('patients', 'analyst:alice', 'epsilon', 2085238608829473293292096000000000000000000000000000, 10426193044147366466460480000000000000000000000000000);
INSERT INTO tacit_ledger.pockets VALUES ('patients', 'project:x', 'epsilon', 2085238608829473293292096000000000000000000000000000, 6950795362764910977640320000000000000000000000000000);
INSERT INTO tacit_ledger.pockets VALUES ('patients', 'analyst:bob', 'epsilon', 2978912298327818990417280000000000000000000000000000, NULL);
INSERT INTO tacit_ledger.pockets VALUES ('staff', '', 'rho', 208523860882947329329209600000000000000000000000000, 10426193044147366466460480000000000000000000000000000);
INSERT INTO tacit_ledger.pockets VALUES ('staff', 'analyst:alice', 'rho', 208523860882947329329209600000000000000000000000000, NULL);
INSERT INTO tacit_ledger.version VALUES (2);
ALTER TABLE ONLY tacit_ledger.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY tacit_ledger.names
    ADD CONSTRAINT names_pkey PRIMARY KEY (space, key);
ALTER TABLE ONLY tacit_ledger.papers
    ADD CONSTRAINT papers_pkey PRIMARY KEY (seq, name);
ALTER TABLE ONLY tacit_ledger.people_jobs
    ADD CONSTRAINT people_jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY tacit_ledger.people_links
    ADD CONSTRAINT people_links_pkey PRIMARY KEY (kind, name);
ALTER TABLE ONLY tacit_ledger.people_origins
    ADD CONSTRAINT people_origins_pkey PRIMARY KEY (origin);
ALTER TABLE ONLY tacit_ledger.people_persons
    ADD CONSTRAINT people_persons_pkey PRIMARY KEY (name);
ALTER TABLE ONLY tacit_ledger.people_sessions
    ADD CONSTRAINT people_sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY tacit_ledger.people_tokens
    ADD CONSTRAINT people_tokens_pkey PRIMARY KEY (id);
ALTER TABLE ONLY tacit_ledger.people_tries
    ADD CONSTRAINT people_tries_pkey PRIMARY KEY (lane);
ALTER TABLE ONLY tacit_ledger.pockets
    ADD CONSTRAINT pockets_pkey PRIMARY KEY (account, owner, currency);
CREATE INDEX people_jobs_open ON tacit_ledger.people_jobs USING btree (state, created);
CREATE TRIGGER entries_stay BEFORE DELETE OR UPDATE OR TRUNCATE ON tacit_ledger.entries FOR EACH STATEMENT EXECUTE FUNCTION tacit_ledger.entries_stay();
