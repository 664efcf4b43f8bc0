WITH vec AS (
  SELECT v.id, ROW_NUMBER() OVER (ORDER BY v.distance, v.id) AS vector_rank
  FROM (
    SELECT c.id, ROUND(VECTOR_DISTANCE(c.embedding, VECTOR_EMBEDDING(mem_embedder USING :q AS DATA), COSINE), 6) AS distance
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
         f.vector_pool, f.lexical_pool,
         ROW_NUMBER() OVER (ORDER BY f.fusion DESC, f.id) AS place
  FROM fused f
  ORDER BY f.fusion DESC, f.id
  FETCH FIRST 40 ROWS ONLY
)
SELECT k.id, k.vector_rank, k.lexical_rank, k.lexical_score,
       k.vector_pool, k.lexical_pool,
       ROUND(VECTOR_DISTANCE(c.embedding, VECTOR_EMBEDDING(mem_embedder USING :q AS DATA), COSINE), 6) AS distance,
       CAST(NULL AS NUMBER) AS rerank,
       c.document_id, c.version, c.chunk_index, c.span_start, c.span_end, c.tokens,
       c.doc_key, c.title, c.source_uri, c.user_id, c.collection, c.created_at, c.valid_from,
       c.valid_until, c.metadata, c.text, c.codes AS codes,
       b0.valid_from AS b0_valid_from, b0.created_at AS b0_created_at, b0.codes AS b0_codes, b0.title AS b0_title, b0.text AS b0_text,
       b1.valid_from AS b1_valid_from, b1.created_at AS b1_created_at, b1.codes AS b1_codes, b1.title AS b1_title, b1.text AS b1_text,
       a0.valid_from AS a0_valid_from, a0.created_at AS a0_created_at, a0.codes AS a0_codes,
       a1.valid_from AS a1_valid_from, a1.created_at AS a1_created_at, a1.codes AS a1_codes
FROM cand k JOIN mem_chunks c ON c.tenant_id = :tenant AND c.id = k.id
LEFT JOIN LATERAL (
  SELECT p.valid_from, p.created_at, p.codes, p.title, p.text
  FROM mem_chunks p
  WHERE p.tenant_id = :tenant
      AND p.user_id IS NULL
      AND p.deleted_at IS NULL
      AND (p.expires_at IS NULL OR p.expires_at > :now)
      AND p.visible_from <= :now AND p.visible_until > :now
      AND p.collection = c.collection
      AND (p.user_id = c.user_id OR (p.user_id IS NULL AND c.user_id IS NULL))
      AND p.chunk_row < c.chunk_row
      AND k.place <= 80
  ORDER BY p.chunk_row DESC, p.id
  OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY
) b0 ON 1 = 1
LEFT JOIN LATERAL (
  SELECT p.valid_from, p.created_at, p.codes, p.title, p.text
  FROM mem_chunks p
  WHERE p.tenant_id = :tenant
      AND p.user_id IS NULL
      AND p.deleted_at IS NULL
      AND (p.expires_at IS NULL OR p.expires_at > :now)
      AND p.visible_from <= :now AND p.visible_until > :now
      AND p.collection = c.collection
      AND (p.user_id = c.user_id OR (p.user_id IS NULL AND c.user_id IS NULL))
      AND p.chunk_row < c.chunk_row
      AND k.place <= 80
  ORDER BY p.chunk_row DESC, p.id
  OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY
) b1 ON 1 = 1
LEFT JOIN LATERAL (
  SELECT p.valid_from, p.created_at, p.codes
  FROM mem_chunks p
  WHERE p.tenant_id = :tenant
      AND p.user_id IS NULL
      AND p.deleted_at IS NULL
      AND (p.expires_at IS NULL OR p.expires_at > :now)
      AND p.visible_from <= :now AND p.visible_until > :now
      AND p.collection = c.collection
      AND (p.user_id = c.user_id OR (p.user_id IS NULL AND c.user_id IS NULL))
      AND p.chunk_row > c.chunk_row
      AND k.place <= 80
  ORDER BY p.chunk_row ASC, p.id
  OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY
) a0 ON 1 = 1
LEFT JOIN LATERAL (
  SELECT p.valid_from, p.created_at, p.codes
  FROM mem_chunks p
  WHERE p.tenant_id = :tenant
      AND p.user_id IS NULL
      AND p.deleted_at IS NULL
      AND (p.expires_at IS NULL OR p.expires_at > :now)
      AND p.visible_from <= :now AND p.visible_until > :now
      AND p.collection = c.collection
      AND (p.user_id = c.user_id OR (p.user_id IS NULL AND c.user_id IS NULL))
      AND p.chunk_row > c.chunk_row
      AND k.place <= 80
  ORDER BY p.chunk_row ASC, p.id
  OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY
) a1 ON 1 = 1
ORDER BY k.fusion DESC, k.id
