PRAGMA application_id = 1952539497;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE entries (
            seq INTEGER PRIMARY KEY,
            body TEXT NOT NULL,
            hash BLOB NOT NULL
        ) STRICT
        ;
INSERT INTO "entries" VALUES(1,'{"format":1,"key_check":"check","kind":"opened","ledger":"4275cd05b4ed9f180fe19d6186b5d8ad","public_key":"ed25519:e1985fd59c5dcbe58e87de7ad455b830fc7492041174ee967bdfd1cd6ffaab53","time":"2026-11-15T12:00:00+00:00"}',X'55D009D5EBF0B94EFB2F94759253F9F4E6604491A18809E8E6511F3D056E1A47');
INSERT INTO "entries" VALUES(2,'{"kind":"account","population":"patients","terms":{"parameters":{"epsilon":"1"},"relation":"add_remove","rule":"pure"},"time":"2026-11-15T12:00:00+00:00"}',X'7C3F6A4ED9EA0E45EF64B6ED2F09D7069324DA09670964D9C5916B0D26D2141F');
INSERT INTO "entries" VALUES(3,'{"kind":"account","population":"staff","terms":{"parameters":{"delta":"1/1000000","rho":"1/2"},"relation":"add_remove","rule":"zcdp"},"time":"2026-11-15T12:00:00+00:00"}',X'E8B782D4DAACA077E418E89F373A288B10AE5F70D7339F74EA63138758027DC2');
INSERT INTO "entries" VALUES(4,'{"fingerprints":["file:visits"],"kind":"source","name":"visits","population":"patients","time":"2026-11-15T12:00:00+00:00"}',X'FB153B0F2CAC0FB7A1354386D65204A17043AD0BADC9E93C4DD8EBB82FC7501E');
INSERT INTO "entries" VALUES(5,'{"after":0,"kind":"unit","population":"patients","sources":[],"time":"2026-11-15T12:00:00+00:00","unit":{"type":"INTEGER","unit":"id"},"was":null}',X'32F36A50AC3E021CFA3E5CBDD2A2E3F37081B8B2C4C89BD50483394BCDA12DEF');
INSERT INTO "entries" VALUES(6,'{"kind":"column","population":"patients","sources":[{"column":"patient_id","fresh":["file:visits"],"name":"visits","rows":["file:visits"]}],"time":"2026-11-15T12:00:00+00:00"}',X'FDF307BF437D07AEC8F41772048779FA0DD6AA46112AEAC2CBAB31603D5D0BE4');
INSERT INTO "entries" VALUES(7,'{"after":0,"changed":{},"kind":"declared","population":"patients","project":"clinic","table":"visits","terms":{"max_groups":"8","max_rows":"20","unit":"patient_id"},"time":"2026-11-15T12:00:00+00:00"}',X'52D756088D90B109343FFCF69628CE02A17B22D70BA3D96D013538ACAFA7200C');
INSERT INTO "entries" VALUES(8,'{"after":7,"changed":{"max_rows":["20","30"]},"kind":"declared","population":"patients","project":"clinic","table":"visits","terms":{"max_groups":"8","max_rows":"30","unit":"patient_id"},"time":"2026-11-15T12:00:00+00:00"}',X'0B0630152264C6A3A6EA4BF7C7EEDBE56B47CA8D31031592F914E211D9A3BFE0');
INSERT INTO "entries" VALUES(9,'{"after":5,"kind":"unit","operator":"olga","population":"patients","reason":"types","sources":[{"column":"person","fresh":[],"name":"visits","rows":["file:visits"]}],"time":"2026-11-15T12:00:00+00:00","unit":{"type":"TEXT","unit":"id"},"was":{"type":"INTEGER","unit":"id"}}',X'8C7575111A9E5E751E8ABAAA9DEB6FB20E654CED854801FC227570CDD0B49EE3');
INSERT INTO "entries" VALUES(10,'{"active":true,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"alice","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}',X'4208BCAF9442C588D167BC3D42F756B208219696C4A8D07564D564FCE52E013D');
INSERT INTO "entries" VALUES(11,'{"active":true,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"bob","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}',X'D443D9529D2E0BC563AC429B1B7C758935357E9FA90DC6837AC60856ABF379BC');
INSERT INTO "entries" VALUES(12,'{"active":true,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"carol","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}',X'D65590F876988D30E990ECDB2F91C4584A14645F48FB9D57D68EEAC9141DF256');
INSERT INTO "entries" VALUES(13,'{"active":true,"details":{"populations":null,"role":"owner"},"kind":"analyst","name":"olga","operator":"set-up","reason":"","time":"2026-11-15T12:00:00+00:00"}',X'4F797E908B151E2B248F000A2D8FFFF9AB90B5D461DA8789245532FECFBFF227');
INSERT INTO "entries" VALUES(14,'{"fields":{"analyst":"alice","expires":null,"label":"","operator":"olga","scopes":"ask","token":"290519654a3a41c7"},"kind":"note","note":"token issued","time":"2026-11-15T12:00:00+00:00"}',X'7A826D5604F27D4AC2199D8ACFDADD48344A2A9A2C2279DE3528FA4C919E5ABD');
INSERT INTO "entries" VALUES(15,'{"fields":{"analyst":"alice","expires":null,"label":"","operator":"olga","scopes":"ask","token":"6bef21edaca8b604"},"kind":"note","note":"token issued","time":"2026-11-15T12:00:00+00:00"}',X'BE3EF819DE2321DE71624A2137D0DF579CF5F9F0DC943CA5BC5AC1E9FDB4B498');
INSERT INTO "entries" VALUES(16,'{"fields":{"analyst":"alice","operator":"olga","token":"6bef21edaca8b604"},"kind":"note","note":"token withdrawn","time":"2026-11-15T12:00:00+00:00"}',X'B732E69CF61977B3AD394B909E83850AEF8AA93DE04BDA7EC26EB3CA37DA771A');
INSERT INTO "entries" VALUES(17,'{"fields":{"analyst":"bob","expires":null,"label":"","operator":"olga","scopes":"ask","token":"5deeb571ff8de1ef"},"kind":"note","note":"token issued","time":"2026-11-15T12:00:00+00:00"}',X'77BD7B4A94664BCFF04055184F8A04390237EAAFC5B04EE3E059DE93B69E296A');
INSERT INTO "entries" VALUES(18,'{"fields":{"analyst":"alice","operator":"olga"},"kind":"note","note":"password set","time":"2026-11-15T12:00:00+00:00"}',X'86EBA92E07F1ECF2A79ABFF57F828EB7A6DF90E2D5B633442A2085F498FCC015');
INSERT INTO "entries" VALUES(19,'{"fields":{"analyst":"carol","operator":"olga"},"kind":"note","note":"invited","time":"2026-11-15T12:00:00+00:00"}',X'B4A6B44165220B56144746D841C10C92DCBF14628DE42BAE760C0CAAC4F1DAA6');
INSERT INTO "entries" VALUES(20,'{"caps":{"epsilon":"1/2"},"kind":"quota","operator":"olga","owner":"analyst:alice","population":"patients","time":"2026-11-15T12:00:00+00:00"}',X'99533B6B239AF37614AE1E5804718E3014BE46D74E9F314F55C5158E9012690D');
INSERT INTO "entries" VALUES(21,'{"caps":{"epsilon":"1/3"},"kind":"quota","operator":"olga","owner":"project:x","population":"patients","time":"2026-11-15T12:00:00+00:00"}',X'8D4CC0F568DE530299BAB52CD7ED57E9973BABF97CC83F81B990B2798726BDC8');
INSERT INTO "entries" VALUES(22,'{"amounts":{"epsilon":"1/10"},"analyst":"alice","event":{"event":{"epsilon":"1/10","mechanism":"","relation":"add_remove"},"kind":"PureEvent"},"key":"k1","kind":"reserve","plan":"0000000000000000000000000000000000000000000000000000000000000000","population":"patients","project":"x","quote":{"rows":[1]},"repeat":"one","request":"c880eb3921d5abcf72e72df46fb55a39cbafd237f2bf03317804aa6b4429d3d9","sql":"SELECT \"\u00e9\"","time":"2026-11-15T12:00:00+00:00"}',X'E4E4F6426C2688C5C9D5E1A2820F763837A79638B39BAD8AFF78E527EA15BE6E');
INSERT INTO "entries" VALUES(23,'{"key":"ed25519:e1985fd59c5dcbe58e87de7ad455b830fc7492041174ee967bdfd1cd6ffaab53","kind":"commit","of":22,"papers":{"receipt":"83eb65c95f440cb09910acf3c9cbefd64381a6097980698b568cc4a749668244","result":"ee9555184346cf42bc9ef6619d764c88f4c193f8fabbbffc0cceacfa44a9dd35"},"time":"2026-11-15T12:00:00+00:00"}',X'05BCBB2EB47C9629D5B1A0FD353184209F41BF05E348CDF044C422899B852165');
INSERT INTO "entries" VALUES(24,'{"analyst":"bob","key":"k2","kind":"repeat","of":22,"population":"patients","project":"","request":"edd395036f0dcdd5b6ad26ec42d9afd3d4a3031f2c63b412de8397b976283f43","time":"2026-11-15T12:00:00+00:00"}',X'2816C61A4B29287037091237BD84C16C5A31BC8A22BEE1E0BBE3CC0CC91FB488');
INSERT INTO "entries" VALUES(25,'{"amounts":{"epsilon":"1/7"},"analyst":"bob","event":{"event":{"epsilon":"1/7","mechanism":"","relation":"add_remove"},"kind":"PureEvent"},"key":"","kind":"reserve","plan":"","population":"patients","project":"","quote":{},"repeat":"two","request":"","sql":"SELECT 2","time":"2026-11-15T12:00:00+00:00"}',X'ED49FC4B2DC0D4A51AF8A4FD5B66A453C5D7D3F7B8D969C2428647CDEF51DE2D');
INSERT INTO "entries" VALUES(26,'{"kind":"run","number":2,"of":25,"time":"2026-11-15T12:00:00+00:00"}',X'F725313ED398D1202255CA4D54C5C156AEF30DA0C2EA76D035794BFC89F80753');
INSERT INTO "entries" VALUES(27,'{"amounts":{"delta":"0","rho":"1/100"},"analyst":"alice","event":{"event":{"delta":"0","mechanism":"","relation":"add_remove","rho":"1/100"},"kind":"ZCDPEvent"},"key":"","kind":"reserve","plan":"","population":"staff","project":"","quote":{},"repeat":"three","request":"","sql":"","time":"2026-11-15T12:00:00+00:00"}',X'021000FE056C98699ABAEE0E59DBA7EF00498967EF68DB9D0BE1E07178A308F3');
INSERT INTO "entries" VALUES(28,'{"kind":"commit","of":27,"papers":{"receipt":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","result":"79df84664a82a240521647137cdb4dbdf6c0ee1bf35bc05762d64f2defcd885e"},"time":"2026-11-15T12:00:00+00:00"}',X'25B1ADE4C73E82EE4A5E834757491826AABB851ACE7FE8B9E65ECCCAE9C937FF');
INSERT INTO "entries" VALUES(29,'{"accepted":"6628db0e2c5cc1162f1732be829cfa0c31eb7cac1bdb64e94fa2af29f34d2ce649345b6af1552e940597c0e76deb1d27fe70e7dd70d31903ba2d3f4d09f5430c","kind":"key","operator":"olga","previous":"ed25519:e1985fd59c5dcbe58e87de7ad455b830fc7492041174ee967bdfd1cd6ffaab53","public_key":"ed25519:048d2691340531f0b0c119ada536ab5cb44041f046569eb8b53a6f4c06e6761e","reason":"yearly","signature":"ba098aa92f930a4325b3b6b938fc046bbd9e159b24b38e8602f5297e8ac9ddc12f6f22590f78a2808d96af5dfbd345e6cfbeb07da601372bd7c6ec44e6d9bc0b","time":"2026-11-15T12:00:00+00:00"}',X'71D3B98550FE8A9594D71E5627A2D87935D6D6ADACAA3117F65C0DDABF300B69');
INSERT INTO "entries" VALUES(30,'{"kind":"caps","operator":"olga","population":"patients","reason":"more","terms":{"parameters":{"epsilon":"2"},"relation":"add_remove","rule":"pure"},"time":"2026-11-15T12:00:00+00:00"}',X'2011A468CFBEAD5E8E765A81697D54A5AB730B40F415D908D77D8CEB102EA7FC');
INSERT INTO "entries" VALUES(31,'{"active":false,"details":{"populations":null,"role":"analyst"},"kind":"analyst","name":"bob","operator":"olga","reason":"","time":"2026-11-15T12:00:00+00:00"}',X'F4A7ECE0D1BA02381B455373BB3E46BAC829866475739BF96067320A69B5B4E5');
INSERT INTO "entries" VALUES(32,'{"fields":{"a":1},"kind":"note","note":"anything","time":"2026-11-15T12:00:00+00:00"}',X'696432D3AE667DA7507BA635D315D5B6CB3B5A7E63C808D095C9D5DED45EBBEC');
CREATE TABLE names (
            space TEXT NOT NULL,
            key TEXT NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (space, key)
        ) STRICT, WITHOUT ROWID
        ;
INSERT INTO "names" VALUES('account','patients',2);
INSERT INTO "names" VALUES('account','staff',3);
INSERT INTO "names" VALUES('analyst','alice',10);
INSERT INTO "names" VALUES('analyst','bob',31);
INSERT INTO "names" VALUES('analyst','carol',12);
INSERT INTO "names" VALUES('analyst','olga',13);
INSERT INTO "names" VALUES('bound','b4200faf8e660fe2fb50e7968773ab427db24d7abfa8d27fa3efb7aa6986c807',6);
INSERT INTO "names" VALUES('column','b4200faf8e660fe2fb50e7968773ab427db24d7abfa8d27fa3efb7aa6986c807',9);
INSERT INTO "names" VALUES('declared','4068024d8c83aa3f98476309417cdd80974acb5da2ed22b0850749f78298b1d4',8);
INSERT INTO "names" VALUES('declared after','0:4068024d8c83aa3f98476309417cdd80974acb5da2ed22b0850749f78298b1d4',7);
INSERT INTO "names" VALUES('declared after','7:4068024d8c83aa3f98476309417cdd80974acb5da2ed22b0850749f78298b1d4',8);
INSERT INTO "names" VALUES('ledger','',1);
INSERT INTO "names" VALUES('outcome','22',23);
INSERT INTO "names" VALUES('outcome','27',28);
INSERT INTO "names" VALUES('repeat','175d610b2733d683983d0b335142ea738c6fa33e7548fae064d1e1e911f96518',25);
INSERT INTO "names" VALUES('repeat','41c5e59c82969d758f05b3d002b609a6ae79473b30ce47756b01a78ca977d9fa',22);
INSERT INTO "names" VALUES('repeat','b5c20028a5ee3d5f6a874ef446f1aaa236cbc1c7691d61ca81f5eb5d86b10fe1',27);
INSERT INTO "names" VALUES('request','54dad4fc9542f5454f88615f342ab1f41753e563310a94da7f83bb0dc111a9c1',22);
INSERT INTO "names" VALUES('request','631689b329c1a86184c6138299fe361f63dde51cc72aec57a1d75357e5512039',24);
INSERT INTO "names" VALUES('revoked','bob',31);
INSERT INTO "names" VALUES('run','25 2',26);
INSERT INTO "names" VALUES('source','58bac01ccf5109bbeb0dfdf64b5669cdeff479c38a81d8fd2cdaf57f725d4bff',4);
INSERT INTO "names" VALUES('successor','ed25519:e1985fd59c5dcbe58e87de7ad455b830fc7492041174ee967bdfd1cd6ffaab53',29);
INSERT INTO "names" VALUES('terms','patients',30);
INSERT INTO "names" VALUES('terms','staff',3);
INSERT INTO "names" VALUES('unit after','0:patients',5);
INSERT INTO "names" VALUES('unit after','5:patients',9);
INSERT INTO "names" VALUES('unit terms','patients',9);
CREATE TABLE papers (
            seq INTEGER NOT NULL,
            name TEXT NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (seq, name)
        ) STRICT
        ;
INSERT INTO "papers" VALUES(23,'result',X'616E20616E73776572');
INSERT INTO "papers" VALUES(23,'receipt',X'612072656365697074');
INSERT INTO "papers" VALUES(28,'result',X'7B22666F726D6174223A2274616369742D6661696C6564222C2276657273696F6E223A317D');
INSERT INTO "papers" VALUES(28,'receipt',X'');
CREATE TABLE people_jobs (
            id TEXT PRIMARY KEY,
            analyst TEXT NOT NULL,
            request TEXT NOT NULL,
            created INTEGER NOT NULL,
            state TEXT NOT NULL,
            outcome TEXT NOT NULL,
            worker TEXT NOT NULL,
            lease INTEGER,
            finished INTEGER
        , tries INTEGER NOT NULL DEFAULT 0) STRICT
        ;
INSERT INTO "people_jobs" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','alice','{"sql": "é"}',1794744000000,'waiting','','',NULL,NULL,0);
CREATE TABLE people_links (
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            id TEXT NOT NULL,
            digest BLOB NOT NULL,
            born INTEGER NOT NULL,
            expires INTEGER NOT NULL,
            PRIMARY KEY (kind, name)
        ) STRICT
        ;
INSERT INTO "people_links" VALUES('welcome','carol','e85e40ca5831ee21',X'73B71FAC6EC06A6198A91E2659EABA394AF957EB88AF24A9ED817CFB343ABB1C',19,1795003200000);
CREATE TABLE people_origins (origin TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT;
INSERT INTO "people_origins" VALUES('fa5dedb64da64fdf8c1b394326ada92d',1797336000000);
CREATE TABLE people_persons (
            name TEXT PRIMARY KEY,
            ended INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            password TEXT
        ) STRICT
        ;
INSERT INTO "people_persons" VALUES('',0,0,NULL);
INSERT INTO "people_persons" VALUES('alice',0,18,'$argon2id$v=19$m=8,t=1,p=1$w6TLgJT+B3keIQNz8qAOKw$KIlq4KnJLwxlHSzODsynMPtJTbqzQlsMU/+AvN1ux3Q');
INSERT INTO "people_persons" VALUES('bob',31,0,NULL);
CREATE TABLE people_seen (seq INTEGER NOT NULL, hash TEXT NOT NULL) STRICT;
INSERT INTO "people_seen" VALUES(9,'8c7575111a9e5e751e8abaaa9deb6fb20e654ced854801fc227570cdd0b49ee3');
CREATE TABLE people_sessions (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            digest BLOB NOT NULL,
            born INTEGER NOT NULL,
            opened INTEGER NOT NULL,
            seen INTEGER NOT NULL
        ) STRICT
        ;
INSERT INTO "people_sessions" VALUES('339de5f4be2a9f25','alice',X'2F300AB6C4C865F33C5DA9F7B98ECBCE7E5F087CB45B24C5DC7AAF3A77CE9AD4',18,1794744000000,1794744000000);
CREATE TABLE people_tokens (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            digest BLOB NOT NULL,
            label TEXT NOT NULL,
            scopes TEXT NOT NULL,
            born INTEGER NOT NULL,
            issued INTEGER NOT NULL,
            expires INTEGER,
            used INTEGER,
            withdrawn INTEGER NOT NULL
        ) STRICT
        ;
INSERT INTO "people_tokens" VALUES('290519654a3a41c7','alice',X'1C88E1ED04D8C60C768CDE49A8854B6FD508D593C6E20148F49F61A25C241854','','ask',14,1794744000000,NULL,NULL,0);
INSERT INTO "people_tokens" VALUES('6bef21edaca8b604','alice',X'949681301730E516095FB515DD2B0454D22A7C32FC56F0DAFF126E3279BFE41A','','ask',15,1794744000000,NULL,NULL,16);
INSERT INTO "people_tokens" VALUES('5deeb571ff8de1ef','bob',X'2A51EEA726180AD976F3B6C7CB223545E642EB6AA78AC6460D0182A925177846','','ask',17,1794744000000,NULL,NULL,0);
CREATE TABLE people_tries (
            lane TEXT PRIMARY KEY,
            failures INTEGER NOT NULL,
            latest INTEGER NOT NULL,
            until INTEGER NOT NULL
        ) STRICT
        ;
CREATE TABLE people_version (version INTEGER NOT NULL) STRICT;
INSERT INTO "people_version" VALUES(2);
CREATE TABLE pockets (
            account TEXT NOT NULL,
            owner TEXT NOT NULL,
            currency TEXT NOT NULL,
            spent TEXT NOT NULL,
            cap TEXT,
            seq INTEGER NOT NULL,
            seal BLOB NOT NULL,
            PRIMARY KEY (account, owner, currency)
        ) STRICT, WITHOUT ROWID
        ;
INSERT INTO "pockets" VALUES('patients','','epsilon','5064150907157292283709376000000000000000000000000000','41704772176589465865841920000000000000000000000000000',30,X'6C72D66D5829405D');
INSERT INTO "pockets" VALUES('patients','analyst:alice','epsilon','2085238608829473293292096000000000000000000000000000','10426193044147366466460480000000000000000000000000000',22,X'1612E6E29C1FCA4A');
INSERT INTO "pockets" VALUES('patients','analyst:bob','epsilon','2978912298327818990417280000000000000000000000000000',NULL,25,X'124BE07827771A7C');
INSERT INTO "pockets" VALUES('patients','project:x','epsilon','2085238608829473293292096000000000000000000000000000','6950795362764910977640320000000000000000000000000000',22,X'A02ABDFF8C0CF6E8');
INSERT INTO "pockets" VALUES('staff','','delta','0','20852386088294732932920960000000000000000000000',3,X'489E782DF73C1AD1');
INSERT INTO "pockets" VALUES('staff','','rho','208523860882947329329209600000000000000000000000000','10426193044147366466460480000000000000000000000000000',27,X'96C63417F97F6249');
INSERT INTO "pockets" VALUES('staff','analyst:alice','rho','208523860882947329329209600000000000000000000000000',NULL,27,X'4BA641E004B8C8A7');
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE INDEX people_jobs_open ON people_jobs (state, created);
COMMIT;
