SELECT c.id FROM mem_chunks c
JOIN mem_documents d ON d.tenant_id = c.tenant_id AND d.document_id = c.document_id
  AND d.version = c.version
WHERE c.tenant_id = :tenant AND (
  c.visible_from <> d.visible_from OR c.visible_until <> d.visible_until
  OR c.as_of_from <> d.as_of_from OR c.as_of_until <> d.as_of_until
  OR c.collection <> d.collection
  OR COALESCE(c.user_id, ' ') <> COALESCE(d.user_id, ' ')
  OR CASE WHEN c.deleted_at IS NULL THEN 0 ELSE 1 END
     <> CASE WHEN d.deleted_at IS NULL THEN 0 ELSE 1 END)
ORDER BY c.id
