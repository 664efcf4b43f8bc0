-- Version 4. Vectors and token codes take a quarter and half of the bytes: steps of one byte a
-- dimension instead of float32 (agentmem.models.vector_codes), and the second version of the token
-- codes. What cannot be converted is empty or missing afterwards; a repair makes it anew.
CREATE TABLE smaller_vectors (
    chunk_row INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    embedding BLOB NOT NULL
) STRICT;
INSERT INTO smaller_vectors
SELECT chunk_row, smaller_vector(embedding) FROM vectors ORDER BY chunk_row;
DROP TABLE vectors;
ALTER TABLE smaller_vectors RENAME TO vectors;

CREATE TABLE smaller_codes (
    chunk_row INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    code      BLOB NOT NULL
) STRICT;
INSERT INTO smaller_codes
SELECT chunk_row, smaller_code(code) FROM codes ORDER BY chunk_row;
DELETE FROM smaller_codes WHERE length(code) = 0;
DROP TABLE codes;
ALTER TABLE smaller_codes RENAME TO codes;

-- A change of the model that was cut short begins again.
DELETE FROM staged_chunks;
DELETE FROM meta WHERE name = 'next model';
