SELECT d.document_id FROM mem_documents d
WHERE d.tenant_id = :tenant AND d.chunks <> (
  SELECT COUNT(*) FROM mem_chunks c
  WHERE c.tenant_id = :tenant AND c.document_id = d.document_id AND c.version = d.version)
ORDER BY d.document_id, d.version
