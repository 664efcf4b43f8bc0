SELECT c.chunk_row, c.title, c.text FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.chunk_row > :after
  AND (c.embedding IS NULL OR (:codes = 1 AND c.codes IS NULL))
ORDER BY c.chunk_row
FETCH FIRST 100 ROWS ONLY
