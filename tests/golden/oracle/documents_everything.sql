SELECT d.document_id, d.user_id, d.collection, d.doc_key, d.identity,
       (SELECT COUNT(*) FROM mem_documents v WHERE v.tenant_id = :tenant AND v.document_id = d.document_id) AS versions,
       (SELECT SUM(v.chunks) FROM mem_documents v WHERE v.tenant_id = :tenant AND v.document_id = d.document_id) AS chunks
FROM mem_documents d
WHERE d.tenant_id = :tenant
  AND d.is_head = 1
  AND d.deleted_at IS NULL
  AND (d.expires_at IS NULL OR d.expires_at > :now)
ORDER BY d.first_created_at, d.document_id
