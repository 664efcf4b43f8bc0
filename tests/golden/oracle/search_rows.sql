SELECT c.id, c.document_id, c.version, c.chunk_index, c.span_start, c.span_end, c.tokens,
       c.doc_key, c.title, c.source_uri, c.user_id, c.collection, c.created_at, c.valid_from,
       c.valid_until, c.metadata, c.text, c.codes AS codes
FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.id IN (SELECT j.v FROM JSON_TABLE(:ids, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
