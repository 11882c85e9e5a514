-- The last outputs of each series. A slot is `seq` modulo their number; by slot first, those of a batch stand together.
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS outputs;
DROP VIEW IF EXISTS steps;
DROP VIEW IF EXISTS latest;
CREATE TABLE outputs (slot INTEGER, id INTEGER, seq INTEGER, {columns}, PRIMARY KEY (slot, id)) WITHOUT ROWID;
CREATE VIEW steps AS SELECT series, o.seq, {columns}
    FROM states AS s JOIN outputs AS o ON o.id = s.id AND o.slot IN ({slots});
CREATE VIEW latest AS SELECT series, o.seq, {columns}
    FROM states AS s JOIN outputs AS o ON o.id = s.id AND o.slot = s.seq % {keep};
COMMIT
