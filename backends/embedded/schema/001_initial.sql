-- Version 1. SQLite is the only truth; the text index and all in-memory structures derive from it.
-- Times are microseconds since 1970-01-01 UTC.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- change:     number of the last committed change; every row carries the change that touched it last
-- epoch:      raised when derived structures must be read anew from the start
-- generation: number of the folder that holds the text index
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('change', 0), ('epoch', 0), ('generation', 1);

-- One row for each tenant, user and collection in use; an empty user cannot be written,
-- so that it can stand for "shared" in the index.
CREATE TABLE scopes (
    scope_id   INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    user_id    TEXT,
    collection TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX scopes_name ON scopes (tenant, collection, COALESCE(user_id, ''));

-- One row for each version of a document. Long columns stand last: scans of the others skip them.
CREATE TABLE documents (
    version_row      INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_id         INTEGER NOT NULL REFERENCES scopes,
    document_id      TEXT NOT NULL,
    version          INTEGER NOT NULL,
    is_head          INTEGER NOT NULL,
    change           INTEGER NOT NULL,
    text_change      INTEGER NOT NULL,
    deleted_at       INTEGER,
    visible_from     INTEGER NOT NULL,
    visible_until    INTEGER NOT NULL,
    as_of_from       INTEGER NOT NULL,
    as_of_until      INTEGER NOT NULL,
    first_created_at INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    valid_from       INTEGER,
    valid_until      INTEGER,
    expires_at       INTEGER,
    user_id          TEXT,
    collection       TEXT NOT NULL,
    key              TEXT,
    identity         TEXT NOT NULL,
    fingerprint      TEXT NOT NULL,
    title            TEXT,
    source_uri       TEXT,
    metadata         TEXT NOT NULL,
    content          TEXT NOT NULL,
    UNIQUE (document_id, version)
) STRICT;
CREATE UNIQUE INDEX documents_live ON documents (scope_id, identity)
    WHERE is_head = 1 AND deleted_at IS NULL;
CREATE INDEX documents_order ON documents (scope_id, first_created_at, document_id)
    WHERE is_head = 1;
CREATE INDEX documents_change ON documents (change);
CREATE INDEX documents_text_change ON documents (text_change);

-- chunk_row is never used twice: the derived structures know a chunk by it.
CREATE TABLE chunks (
    chunk_row   INTEGER PRIMARY KEY AUTOINCREMENT,
    version_row INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunk_index INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    stop        INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    UNIQUE (version_row, chunk_index)
) STRICT;

-- float32 little-endian, L2-normalised
CREATE TABLE vectors (
    chunk_row INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    embedding BLOB NOT NULL
) STRICT;

-- token codes for late interaction (agentmem.models.token_codes)
CREATE TABLE codes (
    chunk_row INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    code      BLOB NOT NULL
) STRICT;

-- Chunks that were purged, for readers that hold derived structures.
CREATE TABLE tombstones (
    chunk_row INTEGER PRIMARY KEY,
    change    INTEGER NOT NULL
) STRICT;
CREATE INDEX tombstones_change ON tombstones (change);
