SELECT
  COUNT(CASE WHEN d.is_head = 1 AND d.deleted_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > :now) THEN 1 END) AS documents,
  COUNT(CASE WHEN d.deleted_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > :now) THEN 1 END) AS versions,
  COALESCE(SUM(CASE WHEN d.deleted_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > :now) THEN d.chunks END), 0) AS chunks,
  COUNT(CASE WHEN d.is_head = 1 AND d.deleted_at IS NOT NULL THEN 1 END) AS forgotten,
  COUNT(DISTINCT CASE WHEN d.deleted_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > :now) THEN d.user_id END) AS users,
  COUNT(DISTINCT CASE WHEN d.deleted_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > :now) THEN d.collection END) AS collections
FROM mem_documents d
WHERE d.tenant_id = :tenant
