UPDATE mem_documents SET is_head = 0, live_identity = NULL
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version
  AND live_identity = :live_identity
