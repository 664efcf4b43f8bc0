SELECT c.id, b.valid_from, b.created_at, b.codes
FROM mem_chunks c CROSS JOIN LATERAL (
  SELECT p.chunk_row, p.valid_from, p.created_at, p.codes
  FROM mem_chunks p
  WHERE p.tenant_id = :tenant
      AND p.user_id IS NULL
      AND p.deleted_at IS NULL
      AND (p.expires_at IS NULL OR p.expires_at > :now)
      AND p.visible_from <= :now AND p.visible_until > :now
      AND p.collection = c.collection
      AND (p.user_id = c.user_id OR (p.user_id IS NULL AND c.user_id IS NULL))
      AND p.chunk_row < c.chunk_row
  ORDER BY p.chunk_row DESC, p.id
  FETCH FIRST 2 ROWS ONLY
) b
WHERE c.tenant_id = :tenant AND c.id IN (SELECT j.v FROM JSON_TABLE(:ids, '$[*]' COLUMNS (v VARCHAR2(4000) PATH '$')) j)
ORDER BY c.id, b.chunk_row DESC
