SELECT v.document_id, v.version, v.user_id, v.collection, v.doc_key, v.title,
       v.source_uri, v.metadata, v.first_created_at, v.created_at, v.valid_from,
       v.valid_until, v.expires_at, v.deleted_at, v.content
FROM mem_documents v
WHERE v.tenant_id = :tenant AND v.document_id IN (
  SELECT d.document_id FROM mem_documents d WHERE d.tenant_id = :tenant
  AND d.is_head = 1
  AND d.deleted_at IS NULL
  AND (d.expires_at IS NULL OR d.expires_at > :now))
ORDER BY v.first_created_at, v.document_id, v.version
