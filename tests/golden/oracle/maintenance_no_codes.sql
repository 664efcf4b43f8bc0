SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.codes IS NULL ORDER BY c.id
