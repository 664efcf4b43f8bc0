SELECT d.document_id, d.version, d.user_id, d.collection, d.doc_key, d.title,
       d.source_uri, d.metadata, d.first_created_at, d.created_at, d.valid_from,
       d.valid_until, d.expires_at, d.deleted_at, d.content
FROM mem_documents d
WHERE d.tenant_id = :tenant
  AND d.is_head = 1
  AND d.deleted_at IS NULL
  AND (d.expires_at IS NULL OR d.expires_at > :now)
  AND (d.first_created_at > :after_at OR (d.first_created_at = :after_at AND d.document_id > :after_id))
ORDER BY d.first_created_at, d.document_id
FETCH FIRST 100 ROWS ONLY
