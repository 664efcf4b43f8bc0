WITH vec AS (
  SELECT v.id, ROW_NUMBER() OVER (ORDER BY v.distance, v.id) AS vector_rank
  FROM (
    SELECT c.id, ROUND(VECTOR_DISTANCE(c.embedding, :qv, COSINE), 6) AS distance
    FROM mem_chunks c
    WHERE c.tenant_id = :tenant
      AND c.user_id IS NULL
      AND c.deleted_at IS NULL
      AND (c.expires_at IS NULL OR c.expires_at > :now)
      AND c.visible_from <= :now AND c.visible_until > :now
      AND c.embedding IS NOT NULL
    ORDER BY distance, c.id
    FETCH EXACT FIRST 100 ROWS ONLY
  ) v
),
fused AS (
  SELECT vec.id AS id, vec.vector_rank, CAST(NULL AS NUMBER) AS lexical_rank, CAST(NULL AS NUMBER) AS lexical_score,
         COALESCE(1 / (60 + vec.vector_rank), 0)
           AS fusion,
         COUNT(vec.id) OVER () AS vector_pool, 0 AS lexical_pool
  FROM vec
),
cand AS (
  SELECT f.id, f.vector_rank, f.lexical_rank, f.lexical_score, f.fusion,
         f.vector_pool, f.lexical_pool
  FROM fused f
  ORDER BY f.fusion DESC, f.id
  FETCH FIRST 40 ROWS ONLY
)
SELECT k.id, k.vector_rank, k.lexical_rank, k.lexical_score,
       k.vector_pool, k.lexical_pool,
       ROUND(VECTOR_DISTANCE(c.embedding, :qv, COSINE), 6) AS distance,
       CAST(NULL AS NUMBER) AS rerank,
       c.document_id, c.version, c.chunk_index, c.span_start, c.span_end, c.tokens,
       c.doc_key, c.title, c.source_uri, c.user_id, c.collection, c.created_at, c.valid_from,
       c.valid_until, c.metadata, c.text, c.codes AS codes
FROM cand k JOIN mem_chunks c ON c.tenant_id = :tenant AND c.id = k.id
ORDER BY k.fusion DESC, k.id
