DELETE FROM mem_documents WHERE tenant_id = :tenant AND document_id = :document_id
