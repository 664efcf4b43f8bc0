SELECT COUNT(*) FROM mem_documents d
WHERE d.tenant_id = :tenant
  AND d.is_head = 1
  AND d.deleted_at IS NULL
  AND (d.expires_at IS NULL OR d.expires_at > :now)
