-- Version 3. Chunks that another embedding model has made beside those in use, until there is one
-- for every version and they take their place. meta's 'next model' says which model made them.
CREATE TABLE staged_chunks (
    staged_row  INTEGER PRIMARY KEY,
    version_row INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunk_index INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    stop        INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    embedding   BLOB NOT NULL,
    code        BLOB,
    UNIQUE (version_row, chunk_index)
) STRICT;
