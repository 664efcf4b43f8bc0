UPDATE mem_chunks SET embedding = :embedding, codes = :codes
WHERE tenant_id = :tenant AND chunk_row = :chunk_row
