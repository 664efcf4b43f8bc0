SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND CONTAINS(c.search_text, :tq, 1) > 0
