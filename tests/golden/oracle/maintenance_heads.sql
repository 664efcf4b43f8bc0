SELECT d.document_id FROM mem_documents d
WHERE d.tenant_id = :tenant GROUP BY d.document_id HAVING SUM(d.is_head) <> 1
ORDER BY d.document_id
