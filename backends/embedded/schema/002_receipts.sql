-- Version 2. What was forgotten and when, as a chain for each tenant: each row's hash covers
-- the one before, so that a row cannot be changed or taken away unnoticed. It names documents by id and holds no content.

CREATE TABLE receipts (
    number   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    tenant   TEXT NOT NULL,
    action   TEXT NOT NULL,
    ids      TEXT NOT NULL,
    details  TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash     TEXT NOT NULL,
    PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
