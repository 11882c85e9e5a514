-- A page holds some small states; with SQLite's default of 4096 a state of 2.3 kB leaves half of its page empty.
PRAGMA page_size = 8192;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
-- The write-ahead log may have 64 MB before its pages are moved into the file; so much of the file is kept in memory.
PRAGMA wal_autocheckpoint = 8192;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -65536;

CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS positions (partition TEXT PRIMARY KEY, offset INTEGER, source TEXT, line INTEGER);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, number INTEGER);
CREATE TABLE IF NOT EXISTS quarantine (number INTEGER PRIMARY KEY AUTOINCREMENT, fate TEXT, reason TEXT, line BLOB);
-- `id` numbers the series in the order in which they came, so that those that come together stand together.
CREATE TABLE IF NOT EXISTS states (
    id INTEGER PRIMARY KEY, series TEXT UNIQUE, "group" INTEGER, seq INTEGER, epoch INTEGER, ledger BLOB, state BLOB,
    checksum INTEGER
);
INSERT OR IGNORE INTO counts VALUES ('commits', 0);
