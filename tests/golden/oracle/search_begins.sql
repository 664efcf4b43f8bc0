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
      AND c.as_of_from >= :begins AND c.as_of_from < :begun
      AND c.embedding IS NOT NULL
    ORDER BY distance, c.id
    FETCH EXACT FIRST 100 ROWS ONLY
  ) v
),
lex AS (
  SELECT t.id, t.lexical_score,
         DENSE_RANK() OVER (ORDER BY t.lexical_score DESC) AS lexical_rank
  FROM (
    SELECT c.id, SCORE(1) AS lexical_score
    FROM mem_chunks c
    WHERE c.tenant_id = :tenant
      AND c.user_id IS NULL
      AND c.deleted_at IS NULL
      AND (c.expires_at IS NULL OR c.expires_at > :now)
      AND c.visible_from <= :now AND c.visible_until > :now
      AND c.as_of_from >= :begins AND c.as_of_from < :begun
      AND CONTAINS(c.search_text, :tq, 1) > 0
    ORDER BY lexical_score DESC, c.id
    FETCH FIRST 100 ROWS ONLY
  ) t
),
fused AS (
  SELECT COALESCE(vec.id, lex.id) AS id, vec.vector_rank, lex.lexical_rank, lex.lexical_score,
         COALESCE(1 / (60 + vec.vector_rank), 0) + COALESCE(1 / (60 + lex.lexical_rank), 0)
           AS fusion,
         COUNT(vec.id) OVER () AS vector_pool, COUNT(lex.id) OVER () AS lexical_pool
  FROM vec FULL OUTER JOIN lex ON vec.id = lex.id
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
