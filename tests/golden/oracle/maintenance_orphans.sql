SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND NOT EXISTS (
  SELECT 1 FROM mem_documents d
  WHERE d.tenant_id = :tenant AND d.document_id = c.document_id AND d.version = c.version)
ORDER BY c.id
