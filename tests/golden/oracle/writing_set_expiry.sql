UPDATE mem_documents SET expires_at = :expires_at, fingerprint = :fingerprint
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version
  AND fingerprint = :before AND is_head = 1 AND deleted_at IS NULL
